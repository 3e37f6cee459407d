"""sock_sendfile: a file over a plain socket, by the kernel or from memory."""

import asyncio
import io
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore.ports.readiness import Capability
from loopcore.services.sendfile import Sending

Loop = asyncio.AbstractEventLoop
Pair = tuple[socket.socket, socket.socket]

CONTENT = bytes(range(256)) * 8192  # 2 MiB: more than a socket takes at once


@pytest.fixture
def file(tmp_path: Path) -> Iterator[io.BufferedReader]:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    with path.open("rb") as opened:
        yield opened


class Unkernelled(io.BytesIO):
    """A file without a descriptor."""


def transfer(loop: Loop, pair: Pair, file: Any, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
    """Send, and receive what arrives at the other end."""
    left, right = pair

    async def main() -> tuple[int, bytes]:
        async def send() -> int:
            sent = await loop.sock_sendfile(left, file, *args, **kwargs)
            left.shutdown(socket.SHUT_WR)
            return sent

        sending = asyncio.create_task(send())
        got = bytearray()
        while data := await loop.sock_recv(right, 1 << 18):
            got += data
        return await sending, bytes(got)

    return loop.run_until_complete(main())


def test_a_whole_file_is_sent(loop: Loop, pair: Pair, file: io.BufferedReader) -> None:
    assert transfer(loop, pair, file) == (len(CONTENT), CONTENT)
    assert file.tell() == len(CONTENT)


@pytest.mark.covers("EventLoop.sock_sendfile(offset, count)")
def test_a_part_of_a_file_is_sent(loop: Loop, pair: Pair, file: io.BufferedReader) -> None:
    assert transfer(loop, pair, file, 1000, 500_000) == (500_000, CONTENT[1000:501_000])
    assert file.tell() == 501_000


def test_more_than_there_is_ends_with_the_file(loop: Loop, pair: Pair, file: io.BufferedReader) -> None:
    assert transfer(loop, pair, file, len(CONTENT) - 10, 1000) == (10, CONTENT[-10:])
    assert file.tell() == len(CONTENT)


@pytest.mark.parametrize("fallback", [True, False])
def test_from_the_end_of_a_file_on_nothing_is_sent(
    loop: Loop, pair: Pair, file: io.BufferedReader, fallback: bool
) -> None:
    assert transfer(loop, pair, file, len(CONTENT), fallback=fallback) == (0, b"")
    if isinstance(loop, loopcore.EventLoop) or sys.version_info[:2] != (3, 14):  # asyncio's: in later releases of 3.14
        assert file.tell() == (len(CONTENT) if sys.version_info >= (3, 14) else 0)


def test_an_empty_file_is_sent_at_once(loop: Loop, pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with path.open("rb") as file:
        assert transfer(loop, pair, file) == (0, b"")


def test_a_file_without_a_descriptor_is_read_and_sent(loop: Loop, pair: Pair) -> None:
    file = Unkernelled(CONTENT)
    assert transfer(loop, pair, file, 7) == (len(CONTENT) - 7, CONTENT[7:])
    assert file.tell() == len(CONTENT)


def test_a_part_of_a_file_without_a_descriptor(loop: Loop, pair: Pair) -> None:
    file = Unkernelled(CONTENT)
    assert transfer(loop, pair, file, 3, 300_000) == (300_000, CONTENT[3:300_003])
    assert file.tell() == 300_003


def test_what_the_kernel_refuses_is_read_and_sent(
    loop: Loop, pair: Pair, file: io.BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise OSError("not this one")

    monkeypatch.setattr(os, "sendfile", refuse)
    assert transfer(loop, pair, file) == (len(CONTENT), CONTENT)
    assert file.tell() == len(CONTENT)


def test_a_platform_without_sendfile_reads_and_sends(
    loop: Loop, pair: Pair, file: io.BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Capability.SEND_FILE in getattr(getattr(loop, "backend", None), "capabilities", ()):
        pytest.skip("the port sends files")
    monkeypatch.delattr(os, "sendfile")
    with pytest.raises(asyncio.SendfileNotAvailableError, match=r"^os.sendfile\(\) is not available$"):
        loop.run_until_complete(loop.sock_sendfile(pair[0], file, fallback=False))
    assert transfer(loop, pair, file) == (len(CONTENT), CONTENT)


@pytest.mark.covers("EventLoop.sock_sendfile(fallback)")
def test_without_fall_back_a_file_without_a_descriptor_is_refused(loop: Loop, pair: Pair) -> None:
    with pytest.raises(asyncio.SendfileNotAvailableError, match=r"^not a regular file$"):
        loop.run_until_complete(loop.sock_sendfile(pair[0], Unkernelled(b"x"), fallback=False))


def test_without_fall_back_what_the_kernel_refuses_is_refused(
    loop: Loop, pair: Pair, file: io.BufferedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise OSError("not this one")

    monkeypatch.setattr(os, "sendfile", refuse)
    with pytest.raises(asyncio.SendfileNotAvailableError, match=r"^os.sendfile call failed$"):
        loop.run_until_complete(loop.sock_sendfile(pair[0], file, fallback=False))
    assert file.tell() == 0


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((0, "a"), TypeError, r"^count must be a positive integer \(got 'a'\)$"),
        ((0, 0), ValueError, r"^count must be a positive integer \(got 0\)$"),
        ((0, -1), ValueError, r"^count must be a positive integer \(got -1\)$"),
        (("a",), TypeError, r"^offset must be a non-negative integer \(got 'a'\)$"),
        ((-1,), ValueError, r"^offset must be a non-negative integer \(got -1\)$"),
    ],
)
def test_wrong_numbers_are_refused(
    loop: Loop, pair: Pair, args: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        loop.run_until_complete(loop.sock_sendfile(pair[0], Unkernelled(b"x"), *args))


def test_a_text_file_is_refused(loop: Loop, pair: Pair, tmp_path: Path) -> None:
    with (tmp_path / "text").open("w") as file:
        with pytest.raises(ValueError, match=r"^file should be opened in binary mode$"):
            loop.run_until_complete(loop.sock_sendfile(pair[0], file))


def test_a_datagram_socket_is_refused(loop: Loop, file: io.BufferedReader) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        with pytest.raises(ValueError, match=r"^only SOCK_STREAM type sockets are supported$"):
            loop.run_until_complete(loop.sock_sendfile(sock, file))


def test_a_blocking_socket_is_refused_in_debug_mode(loop: Loop, pair: Pair, file: io.BufferedReader) -> None:
    pair[0].setblocking(True)
    loop.set_debug(True)
    with pytest.raises(ValueError, match=r"^the socket must be non-blocking$"):
        loop.run_until_complete(loop.sock_sendfile(pair[0], file))


@pytest.mark.differs(
    "EventLoop.sock_sendfile",
    why="When cancelled, it leaves the file's position where the sending ended; asyncio leaves it unchanged.",
)
# asyncio leaves the file where it was.
@pytest.mark.loopcore_only
async def test_cancelling_leaves_the_file_where_the_sending_ended(
    loop: Loop, pair: Pair, file: io.BufferedReader
) -> None:
    left, right = pair
    sending = asyncio.create_task(loop.sock_sendfile(left, file))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not sending.done()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert loop.remove_writer(left) is False
    left.close()
    received = b"".join(iter(lambda: right.recv(1 << 18), b""))
    assert 0 < len(received) < len(CONTENT)
    assert file.tell() == len(received)


async def test_a_peer_that_goes_away_is_an_error_of_the_connection(
    loop: Loop, pair: Pair, file: io.BufferedReader
) -> None:
    left, right = pair
    sending = asyncio.create_task(loop.sock_sendfile(left, file))
    await loop.sock_recv(right, 1000)
    right.close()
    with pytest.raises(ConnectionError):
        await sending
    assert 0 < file.tell() < len(CONTENT)


@pytest.mark.loopcore_only
@pytest.mark.skipif(not hasattr(os, "sendfile"), reason="needs sendfile(2)")
def test_what_is_left_does_not_go_to_another_socket_that_has_got_the_number(file: io.BufferedReader) -> None:
    near, far = socket.socketpair()
    other, receiver = socket.socketpair()
    for sock in (near, other, receiver):
        sock.setblocking(False)
    sending = Sending(near, file, file.fileno(), 0, len(CONTENT), whole=True, note=None)
    number = near.fileno()
    with pytest.raises(BlockingIOError):
        sending.step()
    near.close()
    os.dup2(other.fileno(), number)
    with far, other, receiver:
        try:
            for goes_on in (sending.step, sending.part):
                with pytest.raises(OSError, match="Bad file descriptor"):
                    goes_on()
            with pytest.raises(BlockingIOError):
                receiver.recv(1)
        finally:
            os.close(number)


async def test_a_file_that_is_closed_while_it_is_sent_moves_no_other(loop: Loop, pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(CONTENT)
    (tmp_path / "other").write_bytes(CONTENT)
    file = (tmp_path / "sent").open("rb")
    number = file.fileno()
    sending = asyncio.ensure_future(loop.sock_sendfile(pair[0], file))
    assert await loop.sock_recv(pair[1], 1)
    sending.cancel()
    file.close()
    with (tmp_path / "other").open("rb", buffering=0) as other:
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert other.fileno() == number
        assert other.tell() == 0


async def test_a_file_that_is_closed_while_it_is_sent_hides_no_cancellation(
    loop: Loop, pair: Pair, tmp_path: Path
) -> None:
    (tmp_path / "sent").write_bytes(CONTENT)
    with (tmp_path / "sent").open("rb") as file:
        sending = asyncio.ensure_future(loop.sock_sendfile(pair[0], file))
        assert await loop.sock_recv(pair[1], 1)
        sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
