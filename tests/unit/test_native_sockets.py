"""The functions of loopcore's C library, and the same in Python: one behaviour."""

import errno
import os
import socket
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import loopcore._native.sockets as in_python
from loopcore.testing import native_calls

BIG = 64 * 1024
PIPES = pytest.mark.skipif(os.name != "posix", reason="pipes of Windows are used by a completion port only")


@pytest.fixture(params=["in Python", "as the build calls it"])
def native(request: pytest.FixtureRequest) -> Any:
    """The functions of one of the two."""
    found = vars(in_python) if request.param == "in Python" else native_calls.FUNCTIONS
    return types.SimpleNamespace(**{name: found[name] for name in native_calls.FUNCTIONS})


@pytest.fixture
def near_and_far() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield near, far


@pytest.fixture
def two_udp() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
            sock.setblocking(False)
        yield one, other


def test_each_function_in_python_is_called_in_c_too() -> None:
    public = {
        name for name, found in vars(in_python).items() if isinstance(found, types.FunctionType) and name[0] != "_"
    }
    assert public == set(native_calls.FUNCTIONS)


@pytest.mark.parametrize("size", [100, 20_000])
def test_receive_returns_what_is_there_up_to_the_size(native: Any, near_and_far: Any, size: int) -> None:
    near, far = near_and_far
    assert native.receive(near, near.fileno(), size, False) is None
    far.send(b"some")
    assert native.receive(near, near.fileno(), size, False) == b"some"
    far.send(b"x" * size + b"rest")
    assert native.receive(near, near.fileno(), size, False) == b"x" * size
    assert native.receive(near, near.fileno(), size, False) == b"rest"
    far.close()
    assert native.receive(near, near.fileno(), size, False) == b""


@pytest.mark.parametrize("size", [100, 20_000])
def test_receive_raises_the_error_of_the_call(native: Any, near_and_far: Any, size: int) -> None:
    near, _ = near_and_far
    number = near.detach()
    socket.close(number)
    with pytest.raises(OSError) as caught:
        native.receive(near, -1, size, False)
    assert caught.value.errno == errno.EBADF


def test_receive_into_fills_a_buffer(native: Any, near_and_far: Any) -> None:
    near, far = near_and_far
    room = bytearray(3)
    assert native.receive_into(near, near.fileno(), room) == -1
    far.send(b"abcd")
    assert native.receive_into(near, near.fileno(), memoryview(room)) == 3
    assert room == b"abc"
    assert native.receive_into(near, near.fileno(), room) == 1
    far.close()
    assert native.receive_into(near, near.fileno(), room) == 0
    with pytest.raises((BufferError, TypeError)):
        native.receive_into(near, near.fileno(), b"cannot be written")


def test_receive_behind_appends(native: Any, near_and_far: Any) -> None:
    near, far = near_and_far
    unread = bytearray(b"before ")
    assert native.receive_behind(near, near.fileno(), 10, unread) == -1
    far.send(b"after")
    assert native.receive_behind(near, near.fileno(), 3, unread) == 3
    assert unread == b"before aft"
    with memoryview(unread), pytest.raises(BufferError):
        native.receive_behind(near, near.fileno(), 3, unread)
    assert native.receive_behind(near, near.fileno(), 3, unread) == 2
    assert unread == b"before after"
    far.close()
    assert native.receive_behind(near, near.fileno(), 3, unread) == 0
    assert unread == b"before after"


@pytest.mark.parametrize("wrap", [bytes, memoryview, lambda data: memoryview(data).toreadonly()])
def test_copy_into_copies_what_fits(native: Any, wrap: Callable[[bytes], Any]) -> None:
    room = bytearray(4)
    assert native.copy_into(room, wrap(b"abcdef"), 1) == 4
    assert room == b"bcde"
    assert native.copy_into(memoryview(room), wrap(b"abcdef"), 5) == 1
    assert room == b"fcde"


@pytest.mark.parametrize("wrap", [bytes, memoryview])
def test_send_one_starts_at_the_head(native: Any, near_and_far: Any, wrap: Callable[[bytes], Any]) -> None:
    near, far = near_and_far
    assert native.send_one(near, near.fileno(), wrap(b"abcdef"), 2, False) == 4
    assert far.recv(10) == b"cdef"


def test_send_many_sends_a_vector(native: Any, near_and_far: Any) -> None:
    near, far = near_and_far
    assert native.send_many(near, near.fileno(), [b"abc", memoryview(b"def"), b"g"], 1, False) == 6
    assert far.recv(10) == b"bcdefg"
    parts: list[bytes | memoryview] = [b"x"] * (in_python.VECTOR_LIMIT + 1)
    assert native.send_many(near, near.fileno(), parts, 0, False) == in_python.VECTOR_LIMIT


def test_a_full_socket_takes_nothing_and_a_lost_one_raises(native: Any, near_and_far: Any) -> None:
    near, far = near_and_far
    while native.send_one(near, near.fileno(), bytes(BIG), 0, False) > 0:
        pass
    assert native.send_one(near, near.fileno(), b"x", 0, False) == -1
    assert native.send_many(near, near.fileno(), [b"x", b"y"], 0, False) == -1
    far.close()
    with pytest.raises(BrokenPipeError):
        native.send_one(near, near.fileno(), b"x", 0, False)
    with pytest.raises(BrokenPipeError):
        native.send_many(near, near.fileno(), [b"x", b"y"], 0, False)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
    with open(reading, "rb", 0), open(writing, "wb", 0):
        yield reading, writing


@PIPES
@pytest.mark.parametrize("size", [100, 20_000])
def test_a_pipe_is_read_up_to_the_size(native: Any, pipe: Any, size: int) -> None:
    reading, writing = pipe
    assert native.receive(None, reading, size, True) is None
    os.write(writing, b"x" * size + b"rest")
    assert native.receive(None, reading, size, True) == b"x" * size
    assert native.receive(None, reading, size, True) == b"rest"
    with pytest.raises(OSError) as caught:
        native.receive(None, writing, size, True)
    assert caught.value.errno == errno.EBADF  # the wrong end


@PIPES
def test_a_pipe_is_at_its_end_when_its_writer_has_left(native: Any) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb", 0):
        assert native.receive(None, reading, 100, True) == b""


@PIPES
def test_a_pipe_is_written_from_the_head(native: Any, pipe: Any) -> None:
    reading, writing = pipe
    assert native.send_one(None, writing, memoryview(b"abcdef"), 2, True) == 4
    assert native.send_many(None, writing, [b"ghi", memoryview(b"jk"), b"l"], 1, True) == 5
    assert os.read(reading, 20) == b"cdefhijkl"


@PIPES
def test_a_full_pipe_takes_nothing_and_a_broken_one_raises(native: Any) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(writing, "wb", 0):
        with open(reading, "rb", 0):
            while native.send_one(None, writing, bytes(BIG), 0, True) > 0:
                pass
            assert native.send_one(None, writing, b"x", 0, True) == -1
            assert native.send_many(None, writing, [b"x", b"y"], 0, True) == -1
        with pytest.raises(BrokenPipeError):
            native.send_one(None, writing, b"x", 0, True)
        with pytest.raises(BrokenPipeError):
            native.send_many(None, writing, [b"x", b"y"], 0, True)


@pytest.mark.parametrize("data", [b"", b"one", bytes(60_000)], ids=len)
def test_datagrams_come_with_their_sender(native: Any, two_udp: Any, data: bytes) -> None:
    one, other = two_udp
    assert native.receive_internet(other, other.fileno()) is None
    assert native.send_internet(one, one.fileno(), int(one.family), data, other.getsockname()) == 1
    received = native.receive_internet(other, other.fileno())
    assert received == (data, one.getsockname())
    assert type(received[0]) is bytes


def test_datagrams_of_ipv6_come_with_their_sender(native: Any) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind(("::1", 0))
        except OSError as exc:
            pytest.skip(f"no IPv6 here: {exc}")
        sock.setblocking(False)
        assert native.send_internet(sock, sock.fileno(), int(sock.family), bytearray(b"six"), sock.getsockname()) == 1
        assert native.receive_internet(sock, sock.fileno()) == (b"six", sock.getsockname())


def test_connected_datagrams_need_no_address(native: Any, two_udp: Any) -> None:
    one, other = two_udp
    one.connect(other.getsockname())
    assert native.send_connected(one, one.fileno(), memoryview(b"known")) == 1
    assert native.receive_internet(other, other.fileno()) == (b"known", one.getsockname())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("127.0.0.1", 70_000), OverflowError),
        (("127.0.0.1", -1), OverflowError),
        (("127.0.0.1", "x"), TypeError),
        (("127.0.0.1\0", 1), (TypeError, ValueError)),
        (("127.0.0.1",), TypeError),
        ("127.0.0.1", TypeError),
        (None, TypeError),
    ],
)
def test_a_wrong_address_raises_what_the_socket_raises(native: Any, two_udp: Any, address: Any, expected: Any) -> None:
    one, _ = two_udp
    with pytest.raises(expected):
        native.send_internet(one, one.fileno(), int(one.family), b"x", address)


def test_a_datagram_that_is_too_long_raises(native: Any, two_udp: Any) -> None:
    one, other = two_udp
    with pytest.raises(OSError) as caught:
        native.send_internet(one, one.fileno(), int(one.family), bytes(70_000), other.getsockname())
    assert caught.value.errno == errno.EMSGSIZE
