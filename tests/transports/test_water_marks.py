"""set_write_buffer_limits: any numbers are taken, and the same ones refused, as by asyncio."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import pytest

Loop = asyncio.AbstractEventLoop


@contextlib.asynccontextmanager
async def stream(loop: Loop) -> AsyncIterator[Any]:
    left, right = socket.socketpair()
    with right:
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=left)
        try:
            yield transport
        finally:
            transport.abort()
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("high", "low", "limits"),
    [
        (1.5, None, (0.0, 1.5)),
        (None, 2.5, (2.5, 10.0)),
        (7, 1.5, (1.5, 7)),
        (2**100, 2**80, (2**80, 2**100)),
        (float("inf"), 0, (0, float("inf"))),
        (Fraction(9, 2), None, (1, Fraction(9, 2))),
        (True, False, (False, True)),
    ],
)
async def test_any_numbers_are_taken_and_given_back(loop: Loop, high: Any, low: Any, limits: Any) -> None:
    async with stream(loop) as transport:
        transport.set_write_buffer_limits(high=high, low=low)
        assert transport.get_write_buffer_limits() == limits


@pytest.mark.parametrize(
    ("high", "low", "kind"),
    [
        ("x", None, TypeError),
        (None, "x", TypeError),
        ([], 1, TypeError),
        (1j, 0, TypeError),
        (float("nan"), None, ValueError),
        (1.5, 1.75, ValueError),
        (1, -0.5, ValueError),
    ],
)
async def test_what_makes_no_marks_is_refused_and_changes_nothing(loop: Loop, high: Any, low: Any, kind: Any) -> None:
    async with stream(loop) as transport:
        before = transport.get_write_buffer_limits()
        with pytest.raises(kind):
            transport.set_write_buffer_limits(high=high, low=low)
        assert transport.get_write_buffer_limits() == before


async def test_a_fraction_of_a_byte_counts(loop: Loop) -> None:
    """Nothing fits below one byte, and an empty buffer is not above half of one."""
    told: list[str] = []

    class Told(asyncio.Protocol):
        def pause_writing(self) -> None:
            told.append("pause")

        def resume_writing(self) -> None:
            told.append("resume")

    async with stream(loop) as transport:
        transport.set_protocol(Told())
        transport.set_write_buffer_limits(high=0.5)
        assert told == []
        transport.write(b"x" * 4_000_000)
        await asyncio.sleep(0)
        assert told == ["pause"]
