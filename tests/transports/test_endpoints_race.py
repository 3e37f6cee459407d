"""Happy eyeballs: the order of attempts, and the fate of every socket.

The first half runs the race alone, over attempts that the test decides; the second half runs
create_connection over real sockets, against asyncio as oracle.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopcore.endpoints.addresses import interleave
from loopcore.endpoints.race import race
from loopcore.services.literals import numeric_info
from tests.transports.endpoints_support import row, run

pytestmark = pytest.mark.settles

NEVER = 3600.0
"""A delay that no test outlives: the next attempt starts because the one before it failed, or not at all."""


class Attempts:
    """Attempts that wait until the test decides; `started` has them in order."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.started: list[asyncio.Future[socket.socket]] = []
        self.sockets: list[socket.socket] = []
        self._news = asyncio.Event()

    def all(self) -> list[Callable[[], Any]]:
        return [self._attempt for _ in range(self.count)]

    async def _attempt(self) -> socket.socket:
        decision = asyncio.get_running_loop().create_future()
        self.started.append(decision)
        self._news.set()
        result: socket.socket = await decision
        return result

    async def until_started(self, count: int) -> None:
        while len(self.started) < count:
            self._news.clear()
            await self._news.wait()

    def succeed(self, position: int) -> socket.socket:
        sock = socket.socket()
        self.sockets.append(sock)
        self.started[position].set_result(sock)
        return sock

    def fail(self, position: int, error: Exception | None = None) -> None:
        self.started[position].set_exception(error or ConnectionRefusedError())


def start(attempts: Attempts, delay: float) -> "asyncio.Task[socket.socket | None]":
    return asyncio.get_running_loop().create_task(race(attempts.all(), delay))


async def test_a_second_attempt_waits_while_the_first_has_time() -> None:
    attempts = Attempts(2)
    racing = start(attempts, NEVER)
    await attempts.until_started(1)
    won = attempts.succeed(0)
    assert await racing is won
    assert len(attempts.started) == 1
    won.close()


async def test_a_failure_starts_the_next_attempt_at_once() -> None:
    attempts = Attempts(2)
    racing = start(attempts, NEVER)
    await attempts.until_started(1)
    attempts.fail(0)
    await attempts.until_started(2)
    won = attempts.succeed(1)
    assert await racing is won
    won.close()


async def test_the_delay_starts_the_next_attempt_and_the_loser_is_cancelled() -> None:
    attempts = Attempts(2)
    racing = start(attempts, 0.0)
    await attempts.until_started(2)
    won = attempts.succeed(1)
    assert await racing is won
    assert attempts.started[0].cancelled()
    won.close()


async def test_an_earlier_attempt_may_still_win() -> None:
    attempts = Attempts(3)
    racing = start(attempts, 0.0)
    await attempts.until_started(3)
    attempts.fail(2)
    attempts.fail(1)
    won = attempts.succeed(0)
    assert await racing is won
    won.close()


async def test_of_two_that_connect_together_one_is_closed() -> None:
    attempts = Attempts(2)
    racing = start(attempts, 0.0)
    await attempts.until_started(2)
    attempts.succeed(0)
    attempts.succeed(1)
    won = await racing
    assert won is not None
    assert sorted(each.fileno() for each in attempts.sockets) == [-1, won.fileno()]
    won.close()


async def test_all_failed_is_no_winner() -> None:
    attempts = Attempts(2)
    racing = start(attempts, NEVER)
    for position in range(2):
        await attempts.until_started(position + 1)
        attempts.fail(position)
    assert await racing is None


async def test_an_unexpected_error_is_raised_when_nobody_wins() -> None:
    attempts = Attempts(2)
    racing = start(attempts, NEVER)
    await attempts.until_started(1)
    attempts.fail(0, OverflowError("port must be 0-65535."))
    await attempts.until_started(2)
    attempts.fail(1)
    with pytest.raises(OverflowError):
        await racing


@pytest.mark.parametrize("connected", [0, 1, 2])
async def test_a_cancelled_race_closes_what_had_connected(connected: int) -> None:
    attempts = Attempts(2)
    racing = start(attempts, 0.0)
    await attempts.until_started(2)
    for position in range(connected):
        attempts.succeed(position)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    await asyncio.sleep(0)
    assert all(each.fileno() == -1 for each in attempts.sockets)
    assert all(each.done() for each in attempts.started)


async def test_a_race_that_is_cancelled_after_it_was_won_closes_the_winner() -> None:
    attempts = Attempts(2)
    racing = start(attempts, 0.0)
    await attempts.until_started(2)
    won = attempts.succeed(1)
    while not attempts.started[0].cancelled():  # then the race waits for the loser
        await asyncio.sleep(0)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert won.fileno() == -1


@pytest.mark.parametrize(("first", "expected"), [(1, "6a 4a 6b 4b 6c"), (2, "6a 6b 4a 6c 4b"), (9, "6a 6b 6c 4a 4b")])
def test_families_alternate_behind_the_lead_of_the_first(first: int, expected: str) -> None:
    family = {"6": socket.AF_INET6, "4": socket.AF_INET}
    rows = [(family[name[0]], 0, 0, name, ()) for name in ("6a", "6b", "6c", "4a", "4b")]
    assert " ".join(each[3] for each in interleave(rows, first)) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("127.0.0.1", 80), ("127.0.0.1", 80)),
        ((b"127.0.0.1", "80"), ("127.0.0.1", 80)),
        (("127.0.0.1", None), ("127.0.0.1", 0)),
        (("::1", 80), ("::1", 80, 0, 0)),
        (("fe80::1", 80, 1, 2), ("fe80::1", 80, 1, 2)),
        (("fe80::1%lo", 80), None),
        (("localhost", 80), None),
        (("127.0.0.1", "http"), None),
        ((None, 80), None),
    ],
)
def test_only_numeric_addresses_skip_the_look_up(address: Any, expected: Any) -> None:
    info = numeric_info(address, socket.AF_UNSPEC, socket.SOCK_STREAM, 0)
    assert (info and info[4]) == expected


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def full_listener() -> Iterator[tuple[str, int]]:
    """An address that neither accepts nor refuses: its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as sock:
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        yield sock.getsockname()
        for filler in fillers:
            filler.close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound, so that nobody else is given it, and does not listen."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture
def resolves_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make every name resolve to the given rows, whoever asks."""

    def install(*rows: tuple[Any, ...]) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: list(rows))

    return install


@pytest.mark.covers("EventLoop.create_connection(happy_eyeballs_delay)")
async def test_a_hanging_address_does_not_hold_up_the_next(
    loop: asyncio.AbstractEventLoop,
    listening: socket.socket,
    full_listener: tuple[str, int],
    resolves_to: Callable[..., None],
) -> None:
    resolves_to(row(*full_listener), row(*listening.getsockname()))
    transport, _ = await loop.create_connection(asyncio.Protocol, "name.test", 80, happy_eyeballs_delay=0.01)
    assert transport.get_extra_info("peername") == listening.getsockname()
    transport.close()


async def test_a_failing_address_does_not_wait_for_the_delay(
    loop: asyncio.AbstractEventLoop, listening: socket.socket, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("127.0.0.1", closed_port), row(*listening.getsockname()))
    transport, _ = await loop.create_connection(asyncio.Protocol, "name.test", 80, happy_eyeballs_delay=NEVER)
    transport.close()


def test_errors_of_a_race_are_reported_in_the_order_of_the_attempts(
    loop: asyncio.AbstractEventLoop, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("127.0.0.1", closed_port), row("127.0.0.2", closed_port))
    with pytest.raises(OSError, match=r"Multiple exceptions: .*'127.0.0.1'.*'127.0.0.2'"):
        run(loop, loop.create_connection(asyncio.Protocol, "name.test", 80, happy_eyeballs_delay=NEVER))


@pytest.mark.differs(
    "EventLoop.create_connection(happy_eyeballs_delay)",
    why="If one address fails with an error other than OSError (port 99999: OverflowError) and no other connects, that "
    "error is raised; asyncio raises the OSError of the others.",
)
def test_an_error_other_than_oserror_is_raised_when_all_fail(
    loop: asyncio.AbstractEventLoop, backend_name: str, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    resolves_to(row("127.0.0.1", 99999), row("127.0.0.1", closed_port))
    with pytest.raises(OSError if backend_name == "asyncio" else OverflowError):
        run(loop, loop.create_connection(asyncio.Protocol, "name.test", 80, happy_eyeballs_delay=NEVER))


async def test_a_cancelled_race_over_hanging_addresses_leaves_nothing(
    loop: asyncio.AbstractEventLoop, full_listener: tuple[str, int], resolves_to: Callable[..., None]
) -> None:
    resolves_to(row(*full_listener), row(*full_listener))
    connecting = loop.create_connection(asyncio.Protocol, "name.test", 80, happy_eyeballs_delay=0.01)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connecting, 0.1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_race_tries_the_families_in_turns(
    loop: asyncio.AbstractEventLoop, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    six = [row("::1", closed_port, socket.AF_INET6), row("::1", closed_port, socket.AF_INET6)]
    resolves_to(*six, row("127.0.0.1", closed_port))
    with pytest.raises(OSError, match=r"'::1'.*'127\.0\.0\.1'.*'::1'"):
        run(loop, loop.create_connection(asyncio.Protocol, "name.test", 80, happy_eyeballs_delay=NEVER))


@pytest.mark.covers("EventLoop.create_connection(interleave)")
async def test_interleave_alone_reorders_without_racing(
    loop: asyncio.AbstractEventLoop, listening: socket.socket, closed_port: int, resolves_to: Callable[..., None]
) -> None:
    # The IPv6 rows have no listener; the IPv4 row, last in the resolver's order, comes second.
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    six = [row("::1", closed_port, socket.AF_INET6), row("::1", closed_port, socket.AF_INET6)]
    resolves_to(*six, row(*listening.getsockname()))
    transport, _ = await loop.create_connection(asyncio.Protocol, "name.test", 80, interleave=1)
    assert transport.get_extra_info("peername") == listening.getsockname()
    transport.close()
