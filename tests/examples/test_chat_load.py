"""The load program: it passes where the server keeps its promise, and fails where it is off by one."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from load_members import Ledger, MemberClient, Violation
from messages import Bye, Error, Event, Joined, Members, Missed, Posted, encode
from programs import PATIENCE, run


def test_slow_members_miss_posts_and_all_are_accounted_for(backend_name: str) -> None:
    size = ("--clients", "30", "--groups", "3", "--slow", "5", "--posts", "80", "--text", "6000", "--keep", "5")
    nap = ("--nap", "3600")  # until the fast ones have all, however long that takes here
    ended = run("chat/load.py", "--start", *size, *nap, "--max-rss", "1000", backend=backend_name)
    assert (ended.code, ended.err) == (0, ""), ended.out
    found = re.search(r"^(\d+) received \+ (\d+) reported as missed = 2400 = clients x posts$", ended.out, re.MULTILINE)
    assert found, ended.out
    received, missed = map(int, found.groups())
    assert received + missed == 2400
    assert missed > 0


def test_a_timetable_and_limits_that_are_exceeded() -> None:
    size = ("--clients", "6", "--groups", "3", "--slow", "0", "--posts", "5", "--rate", "100")
    ended = run("chat/load.py", "--start", *size, "--max-p99", "0.0000001", backend="asyncio")
    assert ended.code == 1
    assert re.fullmatch(r"FAILED: p99 was [\d.]+ ms, more than 1e-07\n", ended.err)


def test_no_server_is_an_error() -> None:
    ended = run("chat/load.py", "--unix", "/nonexistent/socket", "--clients", "60", backend="asyncio")
    assert ended.code == 1
    assert ended.err.startswith("FAILED: no connection to /nonexistent/socket: ")


class Wire(asyncio.Transport):
    """What a member writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True


def told(*events: Event, comrades: int = 0, then: Callable[[MemberClient], None] | None = None) -> MemberClient:
    """A member that was sent `events`, byte by byte; raises its Violation."""

    async def main() -> MemberClient:
        ledger = Ledger()
        member = MemberClient(ledger, "g", "ann", comrades)
        member.connection_made(Wire())
        for byte in b"".join(encode(event) for event in events):
            member.data_received(bytes([byte]))
        if then is not None:
            then(member)
        if ledger.trouble.done():
            await asyncio.wait_for(ledger.trouble, PATIENCE)
        return member

    return asyncio.run(main())


def posts(*numbers: int) -> list[Event]:
    return [Posted("g", "bob", f"{number} 0 xxx") for number in numbers]


def test_a_gap_that_is_right_is_counted() -> None:
    member = told(*posts(0, 1), Missed("g", 3), *posts(5), Missed("g", 1))
    assert (member.received, member.missed, member.expected) == (3, 4, 7)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([*posts(0, 2)], "post 2 came where 1 was due"),
        ([*posts(0, 0)], "post 0 came where 1 was due"),
        ([*posts(0), Missed("g", 3), *posts(3)], "post 3 came where 4 was due"),
        ([*posts(0), Missed("g", 3), *posts(5)], "post 5 came where 4 was due"),
        ([Missed("other", 1)], "Missed.* came"),
        ([Bye("closing time")], "Bye.* came"),
        ([Error("not-joined", "no")], r"the server refused: no \(not-joined\)"),
    ],
)
def test_what_must_not_come_is_found(events: list[Event], complaint: str) -> None:
    with pytest.raises(Violation, match=f"^ann in g: {complaint}"):
        told(*events)


def test_a_connection_that_ends_is_found() -> None:
    with pytest.raises(Violation, match="the connection ended: closed by the server"):
        told(then=lambda member: member.connection_lost(None))
    told(then=lambda member: (member.close(), member.connection_lost(None))[1])


def test_members_know_when_all_are_there() -> None:
    def check(member: MemberClient) -> None:
        assert member.joined.done()
        assert member.complete.done()
        member.ask()
        assert not member.listed.done()
        member.data_received(encode(Members("g", ("ann", "bob"))))
        assert member.listed.done()

    told(Joined("g", "ann"), Joined("g", "bob"), comrades=1, then=check)
