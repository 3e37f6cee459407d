"""sendfile: a file over a transport. That TLS sends files too is test_endpoints_tls.py's, and CPython's own tests'."""

import asyncio
import io
import os
from asyncio import constants
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transports.recorder import Recorder, fill, opened, receive, receive_all, reset, settle, tcp_pair

Loop = asyncio.AbstractEventLoop

CONTENT = bytes(range(256)) * 16384  # 4 MiB: more than a socket takes at once


@pytest.fixture
def file(tmp_path: Path) -> Iterator[io.BufferedReader]:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    with path.open("rb") as found:
        yield found


@pytest.mark.covers("EventLoop.sendfile(offset, count)")
@pytest.mark.parametrize("kernel", [True, False])
async def test_a_file_stands_between_what_was_written_before_and_after(
    loop: Loop, file: io.BufferedReader, kernel: bool
) -> None:
    source = file if kernel else io.BytesIO(CONTENT)
    async with opened(Recorder()) as (transport, peer):
        reading = asyncio.create_task(receive_all(peer))
        transport.write(b"before")
        assert await loop.sendfile(transport, source, 5, 3_000_000) == 3_000_000
        transport.write(b"after")
        transport.close()
        assert await reading == b"before" + CONTENT[5:3_000_005] + b"after"
    assert source.tell() == 3_000_005


@pytest.mark.loopcore_only  # asyncio's takes it from Python 3.14 on
@pytest.mark.parametrize("kernel", [True, False])
async def test_a_count_may_be_greater_than_any_file(loop: Loop, kernel: bool, tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"small")
    async with opened(Recorder()) as (transport, peer):
        with path.open("rb") as file:
            assert await loop.sendfile(transport, file if kernel else io.BytesIO(b"small"), 0, 2**63) == 5
        assert await receive(peer, 5) == b"small"


@pytest.mark.parametrize("kernel", [True, False])
async def test_a_file_follows_what_the_kernel_has_not_taken_yet(
    loop: Loop, file: io.BufferedReader, kernel: bool
) -> None:
    source = file if kernel else io.BytesIO(CONTENT)
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        written = fill(transport)
        assert protocol.kinds() == ["made", "pause"]
        sending = asyncio.create_task(loop.sendfile(transport, source))
        received = await receive(peer, written + len(CONTENT))
        assert await sending == len(CONTENT)
        assert received == b"x" * written + CONTENT
        await settle()
        # The second pair stands for the end of the file, which may be in the transport's buffer still.
        assert protocol.kinds()[1:] in (["pause", "resume"], ["pause", "resume"] * 2)


@pytest.mark.parametrize("kernel", [True, False])
async def test_receiving_pauses_while_a_file_is_sent_and_goes_on_after_it(
    loop: Loop, file: io.BufferedReader, kernel: bool
) -> None:
    source = file if kernel else io.BytesIO(CONTENT)
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        sending = asyncio.create_task(loop.sendfile(transport, source))
        await settle()
        peer.send(b"meanwhile")
        await settle()
        assert not transport.is_reading()
        assert protocol.received() == b""
        await receive(peer, len(CONTENT))
        await sending
        await protocol.seen("data")
        assert protocol.received() == b"meanwhile"
        assert transport.get_protocol() is protocol


@pytest.mark.parametrize("kernel", [True, False])
async def test_what_did_not_receive_before_a_file_does_not_after_it(
    loop: Loop, file: io.BufferedReader, kernel: bool
) -> None:
    async with opened(Recorder()) as (transport, peer):
        transport.pause_reading()
        sending = asyncio.create_task(loop.sendfile(transport, file if kernel else io.BytesIO(CONTENT)))
        await receive(peer, len(CONTENT))
        await sending
        assert not transport.is_reading()


async def test_nothing_can_be_written_while_the_kernel_sends(loop: Loop, file: io.BufferedReader) -> None:
    async with opened(Recorder()) as (transport, peer):
        sending = asyncio.create_task(loop.sendfile(transport, file))
        await settle()
        with pytest.raises(RuntimeError, match=r"^unable to write; sendfile is in progress$"):
            transport.write(b"no")
        await receive(peer, len(CONTENT))
        await sending
        transport.write(b"yes")
        assert await receive(peer, 3) == b"yes"


@pytest.mark.parametrize("kernel", [True, False])
async def test_a_peer_that_resets_ends_the_sending(loop: Loop, file: io.BufferedReader, kernel: bool) -> None:
    source = file if kernel else io.BytesIO(CONTENT * 4)
    protocol = Recorder()
    async with opened(protocol, tcp_pair) as (transport, peer):
        sending = asyncio.create_task(loop.sendfile(transport, source))
        await receive(peer, 1000)
        reset(peer)
        with pytest.raises(ConnectionError):
            await sending
        await protocol.seen("lost")


@pytest.mark.differs(
    "EventLoop.sendfile", why="If the transport is closed meanwhile it raises ConnectionError; asyncio waits forever."
)
# asyncio waits for ever for a socket that is closed.
@pytest.mark.loopcore_only
@pytest.mark.parametrize("end", ["close", "abort"])
@pytest.mark.parametrize("kernel", [True, False])
async def test_a_transport_that_is_closed_meanwhile_ends_the_sending(
    loop: Loop, file: io.BufferedReader, end: str, kernel: bool
) -> None:
    source = file if kernel else io.BytesIO(CONTENT)
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        sending = asyncio.create_task(loop.sendfile(transport, source))
        await receive(peer, 1000)
        getattr(transport, end)()
        draining = asyncio.create_task(receive_all(peer))
        with pytest.raises(ConnectionError):
            await sending
        await protocol.seen("lost")
        await draining
        assert protocol.kinds().count("lost") == 1
        assert transport.get_protocol() is None  # as of every transport that has ended


# asyncio sends the file all the same, or waits for ever.
@pytest.mark.loopcore_only
@pytest.mark.parametrize("kernel", [True, False])
async def test_a_transport_that_is_closed_before_a_file_begins_sends_what_was_written(
    loop: Loop, file: io.BufferedReader, kernel: bool
) -> None:
    source = file if kernel else io.BytesIO(CONTENT)
    async with opened(Recorder()) as (transport, peer):
        written = fill(transport)
        sending = asyncio.create_task(loop.sendfile(transport, source))
        await settle()
        transport.close()
        reading = asyncio.create_task(receive_all(peer))
        with pytest.raises(ConnectionError):
            await sending
        assert await reading == b"x" * written


@pytest.mark.differs(
    "EventLoop.sendfile",
    why="When cancelled, it leaves the file's position where the sending ended; asyncio leaves it unchanged.",
)
# asyncio leaves the file where it was.
@pytest.mark.loopcore_only
async def test_a_cancelled_sending_leaves_a_transport_that_works(loop: Loop, file: io.BufferedReader) -> None:
    protocol = Recorder()
    async with opened(protocol) as (transport, peer):
        sending = asyncio.create_task(loop.sendfile(transport, file))
        await settle(20)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        sent = file.tell()
        assert 0 < sent < len(CONTENT)
        transport.write(b"after")
        assert await receive(peer, sent + 5) == CONTENT[:sent] + b"after"
        peer.send(b"answer")
        await protocol.seen("data")


@pytest.mark.covers("EventLoop.sendfile(fallback)")
async def test_without_fall_back_what_the_kernel_refuses_is_refused(loop: Loop) -> None:
    async with opened(Recorder()) as (transport, peer):
        with pytest.raises(asyncio.SendfileNotAvailableError, match=r"^not a regular file$"):
            await loop.sendfile(transport, io.BytesIO(b"x"), fallback=False)
        transport.write(b"works")
        assert await receive(peer, 5) == b"works"
        assert transport.is_reading()


async def test_what_the_kernel_refuses_is_read_and_written(
    loop: Loop, file: io.BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise OSError("not this one")

    monkeypatch.setattr(os, "sendfile", refuse)
    async with opened(Recorder()) as (transport, peer):
        sending = asyncio.create_task(loop.sendfile(transport, file))
        assert await receive(peer, len(CONTENT)) == CONTENT
        assert await sending == len(CONTENT)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"count": 0}, ValueError),
        ({"count": -3}, ValueError),
        ({"count": 2.5}, TypeError),
        ({"offset": -1}, ValueError),
        ({"offset": "0"}, TypeError),
    ],
    ids=["count of none", "count below none", "count and a half", "offset below none", "offset in words"],
)
async def test_numbers_that_are_none_are_refused(
    loop: Loop, file: io.BufferedReader, options: dict[str, Any], error: type[Exception]
) -> None:
    async with opened(Recorder()) as (transport, peer):
        with pytest.raises(error, match=r"^(count|offset) must be a "):
            await loop.sendfile(transport, file, **options)
        transport.write(b"works")
        assert await receive(peer, 5) == b"works"


async def test_a_file_in_text_mode_is_refused(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("text", encoding="utf-8")
    async with opened(Recorder()) as (transport, _):
        with path.open(encoding="utf-8") as text, pytest.raises(ValueError, match="binary mode"):
            await loop.sendfile(transport, text)  # type: ignore[arg-type]


async def test_a_closing_transport_is_refused(loop: Loop, file: io.BufferedReader) -> None:
    async with opened(Recorder()) as (transport, _):
        transport.close()
        with pytest.raises(RuntimeError, match=r"^Transport is closing$"):
            await loop.sendfile(transport, file)
    assert file.tell() == 0


async def test_a_transport_that_cannot_is_refused(loop: Loop, file: io.BufferedReader) -> None:
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    with pytest.raises(RuntimeError, match=r"^sendfile is not supported for transport <"):
        await loop.sendfile(transport, file)  # type: ignore[arg-type]
    transport.close()
    await settle()


async def test_without_fall_back_a_transport_that_needs_it_is_refused(loop: Loop, file: io.BufferedReader) -> None:
    class OverTLS(asyncio.Transport):
        _sendfile_compatible = constants._SendfileMode.FALLBACK

        def is_closing(self) -> bool:
            return False

    with pytest.raises(
        RuntimeError, match=r"^fallback is disabled and native sendfile is not supported for transport <"
    ):
        await loop.sendfile(OverTLS(), file, fallback=False)
