"""What Linux can tell of a descriptor, in the words of a kqueue: which file it is, what can be read, why it ended."""

import errno
import fcntl
import os
import select
import socket
import stat
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

Identity: TypeAlias = tuple[int, int]

RDHUP: Final = 0x2000
"""EPOLLRDHUP of Linux, which PyPy's `select` does not name."""
ENDED: Final = select.EPOLLHUP | select.EPOLLERR | RDHUP
HALF_CLOSED: Final = {4, 5, 9, 11}
"""TCP states in which this end has finished sending: FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING."""
UNACKED_OFFSET: Final = 24
BYTES_ACKED_OFFSET: Final = 120
"""Offsets in struct tcp_info; the first is the backlog where a socket listens."""


def identify(fd: int) -> Identity | None:
    """Return what tells the file of `fd` from others, None if it is closed."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_unconnected(mode: int, bits: int) -> bool:
    """Tell whether `bits` are those of a socket that never was connected: for BSD neither readable nor writable."""
    return stat.S_ISSOCK(mode) and bool(bits & select.EPOLLHUP) and not bits & (RDHUP | select.EPOLLERR)


def has_lost_its_reader(fd: int, mode: int) -> bool:
    """Tell whether `fd` is the end of a pipe that nobody reads any more."""
    if not stat.S_ISFIFO(mode):
        return False
    looking = select.poll()
    looking.register(fd, 0)
    return any(bits & select.POLLERR for _, bits in looking.poll(0))


def to_read(fd: int, mode: int) -> int:
    """Return the bytes that can be read, or the connections that can be accepted."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])
    except OSError:
        tcp = _tcp(fd) if stat.S_ISSOCK(mode) else b""
        return int(struct.unpack_from("I", tcp, UNACKED_OFFSET)[0]) if tcp else 1


def to_write(fd: int, mode: int) -> int:
    """Return the bytes that can be written."""
    try:
        if stat.S_ISSOCK(mode):
            queued = struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))[0]
            with _borrowed(fd) as sock:
                return max(sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) - queued, 0)
        return int(fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)) - to_read(fd, mode) if stat.S_ISFIFO(mode) else 0
    except OSError:
        return 0


def has_finished_sending(fd: int, mode: int) -> bool:
    """Tell whether `fd` is a TCP socket that was shut down for writing."""
    tcp = _tcp(fd) if stat.S_ISSOCK(mode) else b""
    return bool(tcp) and tcp[0] in HALF_CLOSED


def likely_error(fd: int, mode: int, bits: int, asked: int) -> int:
    """Return the errno that `fflags` has: a guess, since Linux forgets an error that it has told."""
    if not bits & select.EPOLLERR or not stat.S_ISSOCK(mode):
        return 0
    tcp = _tcp(fd)
    accepted_or_connected = bool(tcp) and struct.unpack_from("Q", tcp, BYTES_ACKED_OFFSET)[0] > 0
    never_wrote = asked & select.EPOLLOUT and not accepted_or_connected
    return errno.ECONNREFUSED if never_wrote else errno.ECONNRESET


def _tcp(fd: int) -> bytes:
    """Return struct tcp_info, empty if `fd` is no TCP socket."""
    with _borrowed(fd) as sock:
        try:
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            return b""


@contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket]:
    """A socket object for `fd`, which it does not close; and no copy, as there may be no number left for one."""
    sock = socket.socket(fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()
