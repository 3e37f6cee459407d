"""Settings of a loop: from the environment, by attribute, checked, and in force."""

import asyncio
import re
import selectors
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.kernel.limits import FLUSH_LIMIT, POLL_SKIP_TICKS, POLL_SKIP_TIME, RECEIVE_LIMIT
from loopcore.ports.interest import READ
from loopcore.selection.discovery import choose_backend
from loopcore.selection.environment import (
    SETTINGS,
    TASKS_VARIABLE,
    THREADS_VARIABLE,
    VARIABLES,
    read,
)

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"\bLOOPCORE_[A-Z_]*[A-Z]\b")


def test_known_variables_are_those_of_the_manual():
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("`")]
    assert {name for line in headings for name in VARIABLE.findall(line)} == VARIABLES


def test_known_variables_are_those_that_the_sources_read():
    roots = [ROOT / "core" / "loopcore", ROOT / "backends", ROOT / "plugins", ROOT / "core" / "build_ext.py"]
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*.py"))]
    strings = re.compile(rf"""["'](?P<name>{VARIABLE.pattern})["']""")
    texts = [file.read_text(encoding="utf-8") for file in files]
    found = {match["name"] for text in texts for match in strings.finditer(text)}
    assert found - {"LOOPCORE_TASK_SIZE"} == VARIABLES  # a macro of the C compiler


@pytest.fixture
def new_loop() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(*arguments: Any) -> Any:
        made.append(loopcore.new_event_loop(*arguments))
        return made[-1]

    yield make
    for loop in made:
        loop.close()


def test_without_variables_the_defaults_are_in_force(new_loop: Callable[..., Any]) -> None:
    loop = new_loop()
    found = (loop.poll_skip_ticks, loop.poll_skip_time, loop.flush_limit, loop.receive_limit)
    assert found == (POLL_SKIP_TICKS, POLL_SKIP_TIME, FLUSH_LIMIT, RECEIVE_LIMIT)


def test_a_variable_is_read_as_os_environ_has_it_now(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "LOOPCORE_TEST_VARIABLE"
    assert read(name) == ""
    monkeypatch.setenv(name, "caf\u00e9")
    assert read(name) == "caf\u00e9"
    monkeypatch.delenv(name)
    assert read(name) == ""
    monkeypatch.setattr("os.environ", {name: "another mapping in its place"})
    assert read(name) == "another mapping in its place"


@pytest.mark.parametrize("variable", [TASKS_VARIABLE, THREADS_VARIABLE, *SETTINGS])
def test_a_blank_variable_counts_as_unset(
    variable: str, monkeypatch: pytest.MonkeyPatch, new_loop: Callable[..., Any]
) -> None:
    monkeypatch.setenv(variable, "  ")
    loop = new_loop()
    assert (loop.flush_limit, loop.poll_skip_time) == (FLUSH_LIMIT, POLL_SKIP_TIME)


@pytest.mark.parametrize("text", ["", "500"])
def test_a_variable_sets_the_attribute_of_every_loop_and_an_empty_one_does_not(
    text: str, new_loop: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPCORE_FLUSH_LIMIT", text)
    monkeypatch.setenv("LOOPCORE_POLL_SKIP_TIME", text and "1e-3")
    loop = new_loop()
    assert loop.flush_limit == (500 if text else FLUSH_LIMIT)
    assert loop.poll_skip_time == (1e-3 if text else POLL_SKIP_TIME)


@pytest.mark.parametrize("variable", list(SETTINGS))
@pytest.mark.parametrize("text", ["many", "-1", "nan", "1e12", "0x10"])
def test_a_wrong_value_is_an_error_that_says_what_is_right(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    setting = SETTINGS[variable]
    expected = (
        f"{variable}='{text}' must be a .*number of {setting.unit} from {setting.least} to {setting.most}; unset it"
    )
    with pytest.raises(loopcore.UsageError, match=expected):
        loopcore.new_event_loop()


@pytest.mark.parametrize("limit", [256, 1000])
def test_a_receive_takes_no_more_than_the_limit(limit: int, new_loop: Callable[..., Any]) -> None:
    assert max(received_sizes(new_loop("select"), limit, 10_000)) == limit


@pytest.mark.parametrize("limit", [0, -5, 10**9])
def test_a_limit_that_is_out_of_range_counts_as_the_largest(limit: int, new_loop: Callable[..., Any]) -> None:
    assert received_sizes(new_loop("select"), limit, 10_000) == [10_000]


def received_sizes(loop: Any, limit: int, size: int) -> list[int]:
    """Send `size` bytes to a protocol on the loop, and return the sizes of the pieces in which they came."""
    loop.receive_limit = limit

    class Sizes(asyncio.Protocol):
        def __init__(self) -> None:
            self.sizes: list[int] = []
            self.ended = loop.create_future()

        def data_received(self, data: bytes) -> None:
            self.sizes.append(len(data))

        def connection_lost(self, exc: Exception | None) -> None:
            self.ended.set_result(None)

    async def main() -> list[int]:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.sendall(b"x" * size)
        far.close()
        transport, protocol = await loop.connect_accepted_socket(Sizes, near)
        await protocol.ended
        transport.close()
        return list(protocol.sizes)

    sizes: list[int] = loop.run_until_complete(main())
    assert sum(sizes) == size
    return sizes


@pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="epoll(7) belongs to Linux")
def test_a_wait_brings_no_more_events_than_the_batch_and_the_rest_comes_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from loopcore_backends.epoll import EpollBackend

    monkeypatch.setenv("LOOPCORE_EVENT_BATCH", " 2 ")
    pairs = [socket.socketpair() for _ in range(3)]
    for backend in (EpollBackend(), EpollBackend(batch=1)):
        for near, far in pairs:
            backend.register(near.fileno(), READ)
            far.send(b"x")
        first, second = backend.wait(0.0), backend.wait(0.0)
        assert len(first) == (2 if backend._batch == 2 else 1)
        assert not {fd for fd, _ in first} >= {fd for fd, _ in second}  # they come in turn
        backend.close()
    for pair in pairs:
        for each in pair:
            each.close()


@pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="epoll(7) belongs to Linux")
@pytest.mark.parametrize("text", ["0", "-1", "many", "1025", "1.5", "9" * 5000])
def test_a_wrong_batch_is_an_error_by_variable_and_by_argument(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopcore_backends.epoll import EpollBackend

    monkeypatch.setenv("LOOPCORE_EVENT_BATCH", text)
    with pytest.raises(loopcore.UsageError, match=f"LOOPCORE_EVENT_BATCH='{text}' is not a whole number of events"):
        loopcore.new_event_loop("epoll")
    with pytest.raises(loopcore.UsageError, match="is not a whole number of events"):
        choose_backend("epoll")  # who asks before a program runs hears of it
    with pytest.raises(loopcore.UsageError, match="batch=0 is not a whole number of events from 1 to 1024"):
        EpollBackend(batch=0)
