"""What asyncio's TLS transport has and loopcore's has not: limits of a buffer for reading."""

import asyncio

import pytest

from tests.transports.recorder import Recorder, run
from tests.transports.tls_support import secured


@pytest.mark.differs(
    "TlsTransport.get_read_buffer_limits",
    "TlsTransport.get_read_buffer_size",
    "TlsTransport.set_read_buffer_limits(high, low)",
    why="Not there: pausing stops receiving at once, so nothing is left to limit; asyncio receives 256 KiB more.",
)
def test_reading_has_no_limits(loop: asyncio.AbstractEventLoop, backend_name: str) -> None:
    async def main() -> None:
        async with secured(Recorder()) as (transport, _):
            for name in ("get_read_buffer_limits", "get_read_buffer_size", "set_read_buffer_limits"):
                assert hasattr(transport, name) == (backend_name == "asyncio")

    run(loop, main())
