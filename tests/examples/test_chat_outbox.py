"""The outbox: bounded, in order, with exact counts of what was dropped and where."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from groups import Groups
from hypothesis import given
from hypothesis import strategies as st
from messages import EVENTS, MAX_MEMBERS, Joined, Left, Missed, Posted, WireError, decode, encode
from outbox import Outbox

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that must not wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waits")


def waits(coroutine: Coroutine[Any, Any, object]) -> bool:
    """Whether a coroutine is not done after a turn of a loop."""

    async def try_it() -> bool:
        task = asyncio.create_task(coroutine)
        await asyncio.sleep(0)
        is_done = task.done()
        task.cancel()
        return not is_done

    return asyncio.run(try_it())


def line(number: int) -> bytes:
    return encode(Posted("g", "n", str(number)))


def drain(outbox: Outbox) -> list[bytes]:
    outbox.close()
    return list(iter(lambda: at_once(outbox.get()) or b"", b""))


def test_gap_stands_where_the_messages_were_dropped() -> None:
    outbox = Outbox(2)
    for number in range(5):
        outbox.offer("g", line(number))
    outbox.reply(line(100))
    outbox.offer("g", line(5))
    assert at_once(outbox.get()) == line(0)
    outbox.offer("g", line(6))
    assert drain(outbox) == [
        line(1),
        encode(Missed("g", 3)),
        line(100),
        encode(Missed("g", 1)),
        line(6),
    ]


def test_gap_counts_each_group_apart() -> None:
    outbox = Outbox(1)
    for group in ("a", "a", "b", "a", "b"):
        outbox.offer(group, line(0))
    events = [decode(line, EVENTS) for line in drain(outbox)[1:]]
    assert set(events) == {Missed("a", 2), Missed("b", 2)}


def test_gap_counts_on_while_it_is_sent() -> None:
    outbox = Outbox(1)
    outbox.offer("g", line(0))
    outbox.offer("g", line(1))
    assert at_once(outbox.get()) == line(0)
    outbox.offer("g", line(2))  # there is room again, behind the gap
    outbox.offer("g", line(3))
    assert drain(outbox) == [encode(Missed("g", 1)), line(2), encode(Missed("g", 1))]


def test_there_is_no_room_while_too_many_replies_wait() -> None:
    outbox = Outbox(2)
    for number in range(5):
        outbox.offer("g", line(number))  # offers do not take the room of replies
    at_once(outbox.room())
    outbox.reply(line(10))
    at_once(outbox.room())
    outbox.reply(line(11))
    assert waits(outbox.room())
    while at_once(outbox.get()) != line(10):
        pass
    at_once(outbox.room())


def test_closed_outbox_hands_out_what_it_has_and_takes_nothing_more() -> None:
    outbox = Outbox(1)
    assert waits(outbox.get())
    outbox.offer("g", line(0))
    outbox.reply(line(1))
    assert waits(outbox.room())
    outbox.close()
    at_once(outbox.room())
    outbox.offer("g", line(2))
    outbox.reply(line(3))
    assert drain(outbox) == [line(0), line(1)]


@given(st.integers(1, 4), st.lists(st.sampled_from(["offer a", "offer b", "reply", "get"]), max_size=60))
def test_received_and_missed_are_what_was_sent_in_order(limit: int, steps: list[str]) -> None:
    outbox = Outbox(limit)
    sent: dict[str, list[int]] = {"a": [], "b": [], "": []}
    got: list[bytes] = []
    waiting = 0
    for number, step in enumerate(steps):
        kind, _, group = step.partition(" ")
        if kind == "get":
            if waiting and (taken := at_once(outbox.get())):
                got.append(taken)
        else:
            sent[group].append(number)
            message = encode(Posted(group or "own", "n", str(number)))
            outbox.offer(group, message) if group else outbox.reply(message)
        waiting = len(outbox._entries)
        assert sum(isinstance(entry, tuple) and not entry.is_reply for entry in outbox._entries) <= limit
    got += drain(outbox)
    for event in (decode(line, EVENTS) for line in got):
        match event:
            case Missed(group, count):
                assert len(sent[group]) >= count
                del sent[group][:count]
            case Posted(group, _, text):
                assert sent["" if group == "own" else group].pop(0) == int(text)
    assert sent == {"a": [], "b": [], "": []}


def test_refused_join_changes_nothing() -> None:
    groups = Groups()
    ann, bob = Outbox(10), Outbox(10)
    groups.join(ann, "g", "ann")
    for group, name in (("g", "ann2"), ("g", "ann")):
        with pytest.raises(WireError):
            groups.join(ann, group, name)
    with pytest.raises(WireError):
        groups.join(bob, "g", "ann")
    groups.leave_all(bob)
    groups.leave_all(ann)
    assert groups._members == {}
    assert groups._names == {}
    assert [decode(line, EVENTS) for line in drain(ann)] == [Joined("g", "ann")]
    assert drain(bob) == []


def test_group_has_a_limit() -> None:
    groups = Groups()
    members = [Outbox(1) for _ in range(MAX_MEMBERS)]
    for number, outbox in enumerate(members):
        groups.join(outbox, "g", str(number))
    with pytest.raises(WireError) as caught:
        groups.join(Outbox(1), "g", "one more")
    assert caught.value.code == "group-full"


def test_others_are_told_when_a_connection_is_gone() -> None:
    groups = Groups()
    ann, bob = Outbox(10), Outbox(10)
    for outbox, name in ((ann, "ann"), (bob, "bob")):
        groups.join(outbox, "x", name)
        groups.join(outbox, "y", name)
    groups.leave_all(ann)
    told = [decode(line, EVENTS) for line in drain(bob)]
    assert told == [Joined("x", "bob"), Joined("y", "bob"), Left("x", "ann"), Left("y", "ann")]
    with pytest.raises(WireError):
        groups.post(ann, "x", "hello")
