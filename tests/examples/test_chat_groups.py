"""Groups: who is told what, in order, with exact counts of what was missed and where. Nothing here waits."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from groups import BATCH_BYTES, Groups, Member, Memberships
from hypothesis import given
from hypothesis import strategies as st
from messages import EVENTS, MAX_GROUPS, MAX_MEMBERS, Event, Joined, Left, Members, Missed, Posted, WireError, decode

from loopcore.sync import Closed


def events(lines: bytes) -> list[Event]:
    return [decode(line, EVENTS) for line in lines.splitlines()]


def at_once(coroutine: Coroutine[Any, Any, bytes]) -> list[Event]:
    """The events in the result of a coroutine that must not wait."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return events(stop.value.value)


def joined(groups: Groups, group: str, name: str) -> tuple[Memberships, Member]:
    memberships = Memberships(groups)
    return memberships, memberships.join(group, name)


def posted(*numbers: int, group: str = "g", name: str = "ann") -> list[Event]:
    return [Posted(group, name, str(number)) for number in numbers]


def test_gap_stands_where_the_messages_were_missed() -> None:
    groups = Groups(2)
    ann, _ = joined(groups, "g", "ann")
    _, bob = joined(groups, "g", "bob")
    for number in range(5):
        ann.post("g", str(number))
    assert at_once(bob.next()) == [Missed("g", 4), *posted(3, 4)]  # bob's own "joined" is one of the four
    ann.post("g", "5")
    assert at_once(bob.next()) == posted(5)
    assert bob.unseen() == b""


def test_answer_is_never_missed_and_comes_last() -> None:
    groups = Groups(1)
    ann, in_ann = joined(groups, "g", "ann")
    bob, _ = joined(groups, "g", "bob")
    for number in range(3):
        bob.post("g", str(number))
    assert events(ann.post("g", "mine")) == [Missed("g", 5), Posted("g", "ann", "mine")]
    bob.post("g", "3")
    assert events(ann.members("g")) == [*posted(3, name="bob"), Members("g", ("ann", "bob"))]
    bob.post("g", "4")
    assert events(ann.leave("g")) == [Missed("g", 1), Left("g", "ann")]
    with pytest.raises(Closed):
        in_ann.next().send(None)


def test_a_batch_is_bounded_and_loses_nothing() -> None:
    groups = Groups(100)
    ann, _ = joined(groups, "g", "ann")
    _, bob = joined(groups, "g", "bob")
    bob.unseen()
    text = "x" * 8_000
    for _ in range(50):
        ann.post("g", text)
    batches = []
    while waiting := len(bob._receiver):
        batches.append(at_once(bob.next()))
        assert waiting - len(bob._receiver) <= BATCH_BYTES // len(text) + 2
    assert [event for batch in batches for event in batch] == [Posted("g", "ann", text)] * 50
    assert len(batches) == 5


def test_a_wait_that_is_cancelled_has_taken_nothing() -> None:
    async def main() -> list[Event]:
        groups = Groups(10)
        ann, _ = joined(groups, "g", "ann")
        _, bob = joined(groups, "g", "bob")
        bob.unseen()
        waiting = asyncio.create_task(bob.next())
        await asyncio.sleep(0)
        ann.post("g", "0")
        waiting.cancel()
        await asyncio.wait([waiting])
        return events(await bob.next())

    assert asyncio.run(main()) == posted(0)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["read", "post", "list"]), st.sampled_from(["ann", "bob"])), st.just(("leave", "ann"))
)


@given(st.integers(1, 4), st.lists(STEPS, max_size=60))
def test_received_and_missed_are_what_was_said_in_order(capacity: int, steps: list[tuple[str, str]]) -> None:
    """A model: what the group said since a member joined. All of it is received or counted, each in its place."""
    groups = Groups(capacity)
    seats = {name: joined(groups, "g", name) for name in ("ann", "bob")}
    said = {"ann": ["+ann", "+bob"], "bob": ["+bob"]}

    def hear(name: str, lines: bytes) -> None:
        due = said[name]
        for event in events(lines):
            match event:
                case Missed("g", count):
                    assert len(due) - capacity >= count
                    del due[:count]
                case Posted("g", _, text):
                    assert due.pop(0) == text
                case Joined("g", who):
                    assert due.pop(0) == f"+{who}"
                case Left("g", who):
                    assert due.pop(0) == f"-{who}"

    for number, (step, name) in enumerate(steps):
        memberships, member = seats[name]
        if "g" not in memberships.names():
            continue
        if step == "read":
            hear(name, member.unseen())
            continue
        if step != "list":
            for due in said.values():
                due.append(str(number) if step == "post" else f"-{name}")
        answer = {
            "post": lambda memberships=memberships, number=number: memberships.post("g", str(number)),
            "list": lambda memberships=memberships: memberships.members("g"),
            "leave": lambda memberships=memberships: memberships.leave("g"),
        }[step]()
        hear(name, answer)
        assert said[name] == []
        if step == "leave":
            said[name] = []
            del said[name]
    for name, due in said.items():
        hear(name, seats[name][1].unseen())
        assert due == []


def test_refused_join_changes_nothing() -> None:
    groups = Groups(10)
    ann, in_ann = joined(groups, "g", "ann")
    bob = Memberships(groups)
    for who, name in ((ann, "ann2"), (ann, "ann"), (bob, "ann")):
        with pytest.raises(WireError):
            who.join("g", name)
    assert bob.names() == []
    assert events(in_ann.unseen()) == [Joined("g", "ann")]
    ann.drop("g")
    assert len(groups) == 0


def test_group_and_connection_have_limits() -> None:
    groups = Groups(1)
    seats = [joined(groups, "g", str(number)) for number in range(MAX_MEMBERS)]
    with pytest.raises(WireError) as caught:
        joined(groups, "g", "one more")
    assert caught.value.code == "group-full"
    for number in range(MAX_GROUPS - 1):
        seats[0][0].join(str(number), "ann")
    with pytest.raises(WireError) as caught:
        seats[0][0].join("one more", "ann")
    assert caught.value.code == "too-many-groups"
    assert len(groups) == MAX_GROUPS


def test_others_are_told_who_was_dropped_unless_quietly() -> None:
    groups = Groups(10)
    ann, in_ann = joined(groups, "g", "ann")
    for quietly in (True, False):
        bob, _ = joined(groups, "g", "bob")
        in_ann.unseen()
        assert events(bob.drop("g", quietly=quietly)) == [Joined("g", "bob")]
        assert events(in_ann.unseen()) == ([] if quietly else [Left("g", "bob")])
    ann.drop("g")
    with pytest.raises(WireError):
        ann.post("g", "hello")
