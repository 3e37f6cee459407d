"""Requests: one overlapped call each, from the call until its packet has been taken from the port.

A request is the system's side of an operation. It owns the memory that the kernel may still read or write, above all
the OVERLAPPED, whose address is its key: a packet taken from the port is matched to its request by that address. A
multishot operation is a chain of requests.

A call that succeeded at once queues a packet too: the port's default, which we keep. A call that failed queues none,
and `begin` raises.

This module can be imported on Windows only.
"""

import sys

if sys.platform != "win32":
    raise ImportError("win32 only")

import _overlapped
import _winapi
import msvcrt
import os
import socket
import struct
from typing import Any, Final

from loopcore.ports.operations import (
    Accept,
    Connect,
    Read,
    Receive,
    ReceiveFrom,
    Send,
    SendFile,
    SendTo,
    WaitProcess,
    Write,
)
from loopcore_backends.iocp import api
from loopcore_backends.iocp.errors import cancelled

SMALLEST: Final = 4096
"""Bytes that a receive offers at first. The kernel holds the buffer until data comes, for every idle connection. After
a receive that fills it the next offers four times as much, up to the operation's limit; after one that fills less than
an eighth, a quarter."""

JOINED: Final = 128 * 1024
"""Bytes of several buffers that are joined for one call; a larger first buffer is sent alone, without a copy."""

LONGEST_FILE_PART: Final = 2**31 - 2
"""Bytes that TransmitFile takes at most."""

LONGEST_DATAGRAM: Final = 65535
"""At least as many bytes as the longest UDP datagram."""


class Request:
    """One overlapped call in flight; `key` is the address of its OVERLAPPED."""

    __slots__ = ("key", "overlapped")

    def __init__(self) -> None:
        self.overlapped: Any = _overlapped.Overlapped(_overlapped.NULL)
        self.key: int = self.overlapped.address

    def result(self) -> Any:
        """Return the operation's result. Only when the packet has come. Raises OSError."""
        return self.overlapped.getresult()

    def cancel(self) -> None:
        """Ask the kernel to end the call; the packet still comes."""
        self.overlapped.cancel()

    def drop(self) -> None:
        """Release a result that will not be used."""

    def _taken(self) -> int:
        """Return how many bytes were taken, even if a cancellation came in between."""
        try:
            count: int = self.overlapped.getresult()
        except OSError:
            count = api.transferred_by(self.key)
            if not count:
                raise
        return count


class ReceiveRequest(Request):
    """WSARecv into memory of the request's own."""

    __slots__ = ("size",)

    def __init__(self, operation: Receive, before: "ReceiveRequest | None") -> None:
        Request.__init__(self)
        self.size: int = min(operation.limit, SMALLEST if before is None else before.size)
        self.overlapped.WSARecv(operation.fd, self.size, 0)

    def result(self) -> bytes:
        received: bytes = self.overlapped.getresult()
        if len(received) == self.size:
            self.size *= 4
        elif len(received) < self.size // 8:
            self.size = max(SMALLEST, self.size // 4)
        return received


class SendRequest(Request):
    """WSASend of one buffer, which may be several joined."""

    __slots__ = ()

    def __init__(self, operation: Send) -> None:
        Request.__init__(self)
        self.overlapped.WSASend(operation.fd, joined(operation.buffers, operation.head), 0)

    def result(self) -> int:
        return self._taken()


class ReceiveFromRequest(Request):
    """WSARecvFrom into memory for any datagram: one that does not fit may be an error, or be cut short.

    It needs a bound socket; others are bound to a free port, as the first WSASendTo would.
    """

    __slots__ = ("_limit",)

    def __init__(self, operation: ReceiveFrom) -> None:
        Request.__init__(self)
        self._limit = operation.limit
        try:
            self.overlapped.WSARecvFrom(operation.fd, LONGEST_DATAGRAM, 0)
        except OSError as exc:
            family = family_of(operation.fd) if exc.winerror == WSAEINVAL else 0
            if family not in (socket.AF_INET, socket.AF_INET6):
                raise
            _overlapped.BindLocal(operation.fd, family)
            Request.__init__(self)
            self.overlapped.WSARecvFrom(operation.fd, LONGEST_DATAGRAM, 0)

    def result(self) -> tuple[bytes, Any]:
        received, address = self.overlapped.getresult()
        return received[: self._limit], address


class SendToRequest(Request):
    """WSASendTo, or WSASend on a connected socket."""

    __slots__ = ()

    def __init__(self, operation: SendTo) -> None:
        Request.__init__(self)
        if operation.address is None:
            self.overlapped.WSASend(operation.fd, operation.buffer, 0)
        else:
            self.overlapped.WSASendTo(operation.fd, operation.buffer, 0, operation.address)


class AcceptRequest(Request):
    """AcceptEx, which needs the new socket created in advance."""

    __slots__ = ("connection", "listener")

    def __init__(self, operation: Accept) -> None:
        Request.__init__(self)
        self.listener = operation.fd
        known = socket.socket(fileno=operation.fd)
        try:
            self.connection = socket.socket(known.family, known.type, known.proto)
        finally:
            known.detach()
        try:
            self.overlapped.AcceptEx(self.listener, self.connection.fileno())
        except BaseException:
            self.connection.close()
            raise

    def result(self) -> int:
        try:
            self.overlapped.getresult()
            api.set_option(
                self.connection.fileno(), _overlapped.SO_UPDATE_ACCEPT_CONTEXT, struct.pack("P", self.listener)
            )
            self.connection.setblocking(False)
        except BaseException:
            self.connection.close()
            raise
        return self.connection.detach()

    def drop(self) -> None:
        self.connection.close()


class ConnectRequest(Request):
    """ConnectEx, which needs a bound socket."""

    __slots__ = ("fd",)

    def __init__(self, operation: Connect) -> None:
        Request.__init__(self)
        self.fd = operation.fd
        try:
            family = socket.AF_INET if len(operation.address) == 2 else socket.AF_INET6
            _overlapped.BindLocal(self.fd, family)
        except OSError as exc:
            if exc.winerror != WSAEINVAL:  # it is bound already
                raise
        self.overlapped.ConnectEx(self.fd, operation.address)

    def result(self) -> None:
        self.overlapped.getresult()
        api.set_option(self.fd, _overlapped.SO_UPDATE_CONNECT_CONTEXT, b"")


WSAEINVAL: Final = 10022


class ReadRequest(Request):
    """ReadFile from a pipe; WSARecv where a socket serves as one."""

    __slots__ = ()

    def __init__(self, operation: Read) -> None:
        Request.__init__(self)
        try:
            if api.is_socket(operation.fd):
                self.overlapped.WSARecv(operation.fd, operation.limit, 0)
            else:
                self.overlapped.ReadFile(operation.fd, operation.limit)
        except BrokenPipeError as exc:
            raise Ended(b"") from exc


class WriteRequest(Request):
    """WriteFile to a pipe; WSASend where a socket serves as one."""

    __slots__ = ()

    def __init__(self, operation: Write) -> None:
        Request.__init__(self)
        data = joined(operation.buffers, operation.head)
        if api.is_socket(operation.fd):
            self.overlapped.WSASend(operation.fd, data, 0)
        else:
            self.overlapped.WriteFile(operation.fd, data)

    def result(self) -> int:
        return self._taken()


class SendFileRequest(Request):
    """TransmitFile."""

    __slots__ = ()

    def __init__(self, operation: SendFile) -> None:
        Request.__init__(self)
        left = os.fstat(operation.file).st_size - operation.offset
        count = min(operation.count, left, LONGEST_FILE_PART)
        if count <= 0:
            raise Ended(0)
        self.overlapped.TransmitFile(
            operation.fd,
            msvcrt.get_osfhandle(operation.file),
            operation.offset & 0xFFFFFFFF,
            operation.offset >> 32,
            count,
            0,
            0,
        )

    def result(self) -> int:
        return self._taken()


class ProcessRequest(Request):
    """A system thread waits for the process, and posts the packet."""

    __slots__ = ("_port", "_process", "_waiter")

    def __init__(self, operation: WaitProcess, port: int) -> None:
        Request.__init__(self)
        access = _winapi.SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION
        self._process = _winapi.OpenProcess(access, False, operation.pid)
        self._port = port
        try:
            self._waiter = _overlapped.RegisterWaitWithQueue(self._process, port, self.key, _winapi.INFINITE)
        except BaseException:
            _winapi.CloseHandle(self._process)
            raise

    def result(self) -> int:
        ended = _winapi.WaitForSingleObject(self._process, 0) == _winapi.WAIT_OBJECT_0
        code = _winapi.GetExitCodeProcess(self._process)
        self.drop()
        if not ended:
            raise cancelled()
        return code << 8  # as os.waitpid returns it on Windows

    def cancel(self) -> None:
        # The packet must come: we post it, unless the wait is just firing.
        if self._unregister():
            if _winapi.WaitForSingleObject(self._process, 0) == _winapi.WAIT_OBJECT_0:
                _kept.append(self.overlapped)  # if it has fired, two packets come, and the key must stay ours
            _overlapped.PostQueuedCompletionStatus(self._port, 0, 0, self.key)

    def drop(self) -> None:
        self._unregister()
        _winapi.CloseHandle(self._process)

    def _unregister(self) -> bool:
        """End the wait; tell whether none of its callbacks is running. Once: it frees the wait's handle."""
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return False
        try:
            _overlapped.UnregisterWait(waiter)
        except OSError as exc:
            if exc.winerror != _overlapped.ERROR_IO_PENDING:
                raise
            return False
        return True


PROCESS_QUERY_LIMITED_INFORMATION: Final = 0x1000

_kept: list[Any] = []


class Ended(Exception):
    """A call that had its result at once, and for which no packet comes."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


def family_of(fd: int) -> int:
    """Return AF_INET, AF_INET6 ... of a socket. Raises OSError."""
    known = socket.socket(fileno=fd)
    try:
        return known.family
    finally:
        known.detach()


def joined(buffers: Any, head: int) -> Any:
    """Return the first buffers, without the first `head` bytes of the first one, as one."""
    if not buffers:
        return b""
    first = memoryview(buffers[0])[head:] if head else buffers[0]
    if len(buffers) == 1 or len(first) >= JOINED:
        return first
    parts, size = [first], len(first)
    for buffer in buffers[1:]:
        if size + len(buffer) > JOINED:
            break
        parts.append(buffer)
        size += len(buffer)
    return b"".join(parts)
