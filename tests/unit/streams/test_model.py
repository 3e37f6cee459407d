"""The reader does what asyncio's does: the same program of feeding and reading on both, step by step."""

import asyncio
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loopcore import StreamReader

PIECES = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"x" * 30, b"y" * 3000]), max_size=4).map(b"".join)
SEPARATORS: list[Any] = [b"\n", b"\r\n", b"ab", bytearray(b"b")]
if sys.version_info >= (3, 13):
    SEPARATORS += [(b"\n", b"\r\n"), (b"ab", b"b", b"\n"), ()]

STEPS = st.one_of(
    st.tuples(st.just("feed_data"), PIECES),
    st.tuples(st.just("read"), st.integers(-1, 40)),
    st.tuples(st.just("readexactly"), st.integers(-1, 4000)),
    st.tuples(st.just("readuntil"), st.sampled_from([*SEPARATORS, b""])),
    st.tuples(st.just("readline")),
    st.tuples(st.just("feed_eof")),
)


class Pausable(asyncio.Transport):
    """Knows whether it is paused."""

    paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


async def outcome(reader: Any, step: tuple[Any, ...]) -> Any:
    """What a step gives, as something that can be compared; a call that waits is cancelled."""
    name, *args = step
    if name.startswith("feed"):
        return reader.at_eof() if reader._eof else getattr(reader, name)(*args)
    task = asyncio.create_task(getattr(reader, name)(*args))
    await asyncio.sleep(0)
    if not task.done() and not reader._waiter:
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.IncompleteReadError as exc:
        return "incomplete", exc.partial, exc.expected
    except asyncio.LimitOverrunError as exc:
        return "overrun", str(exc), exc.consumed
    except ValueError as exc:
        return "value", str(exc)
    except asyncio.CancelledError:
        return "waits"


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 64), st.lists(STEPS, max_size=25))
def test_reader_does_what_asyncios_does(limit: int, steps: list[tuple[Any, ...]]) -> None:
    async def main() -> None:
        ours, theirs = StreamReader(limit), asyncio.StreamReader(limit)
        transports = Pausable(), Pausable()
        ours.set_transport(transports[0])
        theirs.set_transport(transports[1])
        for step in steps:
            # Cancelled, asyncio's read(-1) has lost what it had read; ours leaves it.
            if step == ("read", -1) and not ours._eof:
                continue
            assert await outcome(ours, step) == await outcome(theirs, step)
            assert bytes(ours._buffer) == bytes(theirs._buffer)
            assert ours.at_eof() == theirs.at_eof()
            assert transports[0].paused == transports[1].paused

    asyncio.run(main())
