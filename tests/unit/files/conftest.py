"""The loops that files are tested on: by operations and by threads, ours and asyncio's."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

import loopcore
from loopcore.files import threads
from tests.unit.files.port import FilesPort

ORIGINAL = [row.name for row in loopcore.list_backends() if row.name == "uring" and row.available]
KINDS = ["default", "port", "asyncio", "seeking", *ORIGINAL]
"""The backend of this run; our port in this process; asyncio; the same without pread(2), as on Windows; io_uring."""


def make_loop(kind: str) -> asyncio.AbstractEventLoop:
    if kind in ("asyncio", "seeking"):
        return asyncio.SelectorEventLoop()
    if kind == "port":
        return loopcore.EventLoop(FilesPort())
    return loopcore.new_event_loop(None if kind == "default" else kind)


def use(made: asyncio.AbstractEventLoop) -> Iterator[asyncio.AbstractEventLoop]:
    """Lend a loop; end it as `asyncio.run` does."""
    yield made
    if not made.is_closed():
        made.run_until_complete(made.shutdown_default_executor())
        made.close()


@pytest.fixture(params=KINDS)
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    if request.param == "seeking":
        monkeypatch.setattr(threads, "HAS_PREAD", False)
    yield from use(make_loop(request.param))


@pytest.fixture
def port() -> FilesPort:
    """The port of `port_loop`."""
    return FilesPort()


@pytest.fixture
def port_loop(port: FilesPort) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop over `port`. Nothing is left in flight."""
    yield from use(loopcore.EventLoop(port))
    assert port.in_flight() == []


@pytest.fixture(params=["loopcore", "asyncio"])
def thread_loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop whose files are made by threads."""
    made = asyncio.SelectorEventLoop() if request.param == "asyncio" else loopcore.new_event_loop("select")
    yield from use(made)


@pytest.fixture
def until() -> Callable[..., None]:
    """Run a loop until something holds: what is looked at has no future to wait for."""

    def run(made: asyncio.AbstractEventLoop, holds: Callable[[], bool]) -> None:
        async def main() -> None:
            async with asyncio.timeout(10.0):
                while not holds():
                    await asyncio.sleep(0)

        made.run_until_complete(main())

    return run
