"""Socket operations: add_reader and its relatives, and the sock_* coroutines over plain sockets.

Every sock_* call tries first and waits only if the kernel returns "not now"; it then puts a SocketFuture into the
readiness table, which tries again whenever the descriptor is ready, until it succeeds, fails, or is cancelled. One
exception: a read that follows another within a tick or two skips the first attempt if the earlier one received fewer
bytes than it asked for, because that attempt would fail.

The methods that servers use for every message (recv, recv_into, accept, sendall) are not coroutines: they try at
once, and return the result, or the SocketFuture that is to be awaited at once.

As in asyncio one operation per direction and descriptor can wait; a second one replaces the first, which then waits for
ever. That is the caller's mistake, and it is not detected.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from loopcore.kernel.completions import Completions
from loopcore.kernel.flags import SlowPath
from loopcore.kernel.handle import Handle
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable
from loopcore.kernel.scheduler import Scheduler
from loopcore.ports.completion import Backend
from loopcore.ports.operations import Connect
from loopcore.ports.readiness import Capability
from loopcore.services.call import OperationCall
from loopcore.services.literals import AddressInfo, HostName, Port, numeric_host
from loopcore.services.socket_future import (
    ACCEPT,
    CALL,
    READING,
    RECV,
    RECV_INTO,
    WRITING,
    SocketFuture,
    Sweeper,
    accept_from,
    begin,
)
from loopcore.services.transport_table import TransportTable

try:
    import ssl
except ImportError:  # a Python built without OpenSSL
    ssl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from _typeshed import HasFileno, ReadableBuffer, WriteableBuffer

FileDescriptorLike: TypeAlias = "int | HasFileno"
"""An int, or an object with `fileno()`."""

Callback: TypeAlias = Callable[..., object]

_READING, _WRITING, _RECV, _RECV_INTO = READING, WRITING, RECV, RECV_INTO
_DEBUG = SlowPath.DEBUG.value
_Socket = socket.socket


class SockHost(Protocol):
    """The loop as this module uses it."""

    _readiness: Readiness

    @property
    def backend(self) -> Backend: ...

    @property
    def _completions(self) -> Completions | None: ...

    def is_closed(self) -> bool: ...

    async def getaddrinfo(
        self,
        host: HostName,
        port: Port,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]: ...


class SockOps:
    """Watching descriptors, and operations on sockets. Thread: the loop's own."""

    __slots__ = ("_host", "_loop", "_readiness", "_sweeper", "_transports")

    def __init__(self, host: SockHost, loop: Scheduler, transports: TransportTable) -> None:
        self._host = host
        self._loop = loop  # handles and futures belong to it; it also knows the debug mode
        self._readiness: Readiness = host._readiness
        self._sweeper = Sweeper(loop)
        self._transports = transports
        # If registering costs a system call: the kernel has the table, or a port checks the number. A Poll left in
        # flight would keep a socket open after the program closes it, so over a port the interest is 0 meanwhile.
        self._readiness.parks = host._completions is not None
        self._readiness.keeps = self._readiness.parks or Capability.FLAT_COST in host.backend.capabilities

    # --- watching -----------------------------------------------------------------------------------

    def add(self, fd: FileDescriptorLike, direction: int, callback: Callback, args: tuple[Any, ...]) -> None:
        """Call `callback(*args)` whenever `fd` is ready in this direction, in place of the previous callback."""
        number = self._free_descriptor(fd)
        self._loop._check_closed()
        self._watch(number, direction, Handle(callback, args, self._loop, None))
        if number is not fd:
            self._readiness.note_fileobj(number, fd)

    def remove(self, fd: FileDescriptorLike, direction: int) -> bool:
        """Stop watching `fd` in this direction; return whether it was watched."""
        table = self._readiness
        try:
            number = self._free_descriptor(fd)
        except ValueError:
            # Closed first, and removed afterwards: the object has no number any more, but the table remembers it.
            found = table.find(fd)
            if found is None:
                raise
            number = found
        if self._host.is_closed():
            return False
        previous = table.clear_reader(number) if direction == _READING else table.clear_writer(number)
        if previous is None:
            return False
        _end_displaced(previous)
        return True

    def _watch(self, fd: int, direction: int, runnable: Runnable) -> None:
        table = self._readiness
        previous = table.set_reader(fd, runnable) if direction == _READING else table.set_writer(fd, runnable)
        if previous is not None:
            _end_displaced(previous)

    def _free_descriptor(self, fd: FileDescriptorLike) -> int:
        """Return the number of `fd`; raise RuntimeError if a transport owns it."""
        number = descriptor_of(fd)
        self._transports.check_free(number, fd)
        return number

    # --- operations ---------------------------------------------------------------------------------

    def recv(self, sock: socket.socket, n: int) -> bytes | SocketFuture:
        """Receive at most `n` bytes, or return a SocketFuture; b"" means the peer has ended. Raises as `recv(2)`."""
        self.check_socket(sock)
        if not (type(n) is int and n > 0 and self._readiness.is_drained(sock)):
            try:
                return sock.recv(n)
            except (BlockingIOError, InterruptedError):
                pass
        return self._read_later(_RECV, sock, n)

    def recv_into(self, sock: socket.socket, buf: "WriteableBuffer") -> int | SocketFuture:
        """Receive into `buf`; return the number of bytes, or a SocketFuture. Raises as `recv(2)`."""
        self.check_socket(sock)
        if not (self._readiness.is_drained(sock) and _has_room(buf)):
            try:
                return sock.recv_into(buf)
            except (BlockingIOError, InterruptedError):
                pass
        return self._read_later(_RECV_INTO, sock, buf)

    def accept(self, sock: socket.socket) -> tuple[socket.socket, Any] | SocketFuture:
        """Accept a connection; return its socket, made non-blocking, and the peer's address, or a SocketFuture."""
        self.check_socket(sock)
        try:
            return accept_from(sock)
        except (BlockingIOError, InterruptedError):
            return self._read_later(ACCEPT, sock, None)

    def _read_later(self, kind: int, sock: socket.socket, argument: Any) -> SocketFuture:
        fd = sock.fileno()
        self._transports.check_free(fd, fd)
        self._loop._check_closed()
        future = begin(self._sweeper, fd, _READING, kind, sock, argument)
        if not self._readiness.resume_reader(fd, sock, future):
            self._watch(fd, _READING, future)
        return future

    async def recvfrom(self, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
        """Receive a datagram; return it and its sender's address."""
        self.check_socket(sock)
        try:
            return sock.recvfrom(bufsize)
        except (BlockingIOError, InterruptedError):
            pass
        datagram: tuple[bytes, Any] = await self._until(sock, READING, lambda: sock.recvfrom(bufsize))
        return datagram

    async def recvfrom_into(self, sock: socket.socket, buf: Any, nbytes: int = 0) -> tuple[int, Any]:
        """Receive a datagram into `buf`, at most `nbytes` of it; return its size and its sender's address."""
        self.check_socket(sock)
        limit = nbytes or len(buf)
        try:
            return sock.recvfrom_into(buf, limit)
        except (BlockingIOError, InterruptedError):
            pass
        received: tuple[int, Any] = await self._until(sock, READING, lambda: sock.recvfrom_into(buf, limit))
        return received

    def sendall(self, sock: socket.socket, data: "ReadableBuffer") -> SocketFuture | None:
        """Send all of `data`, or return a SocketFuture. If that is cancelled, the amount sent is unknown."""
        self.check_socket(sock)
        try:
            sent = sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if type(data) is bytes and sent == len(data):
            return None
        remainder = Remainder(sock, memoryview(data).cast("B"))
        if remainder.passes(sent):
            return None
        return self._attempt(self._free_descriptor(sock.fileno()), _WRITING, remainder.send, None)

    async def sendto(self, sock: socket.socket, data: "ReadableBuffer", address: Any) -> int:
        """Send a datagram; return the number of bytes."""
        self.check_socket(sock)
        try:
            return sock.sendto(data, address)
        except (BlockingIOError, InterruptedError):
            pass
        count: int = await self._until(sock, WRITING, lambda: sock.sendto(data, address))
        return count

    async def connect(self, sock: socket.socket, address: Any) -> None:
        """Connect to `address`, whose host may be a name; it is looked up first."""
        self.check_socket(sock)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            address = await self._resolved(sock, address)
            completions = self._host._completions
            if (
                completions is not None
                and sock.type == socket.SOCK_STREAM
                and _is_plain(address)
                and sock.fileno() >= 0  # if it is closed, `connect` itself raises the error
            ):
                await self._connect_by_port(sock, address, completions)
                return
        try:
            sock.connect(address)
        except BlockingIOError as exc:
            if exc.errno != errno.EINPROGRESS and sock.family == getattr(socket, "AF_UNIX", None):
                # EAGAIN: the backlog is full, and no attempt is under way that could be waited for (connect(2)).
                # asyncio waits nevertheless, and takes the idle socket's writability for success.
                raise
        except InterruptedError:
            pass  # continues in the background (connect(2), EINTR)
        else:
            return
        await self._until(sock, WRITING, lambda: _finish_connect(sock, address))

    async def _connect_by_port(self, sock: socket.socket, address: Any, completions: Completions) -> None:
        self._loop._check_closed()
        fd = self._free_descriptor(sock.fileno())
        call = OperationCall(self._loop, "", completions, Connect(fd, address))
        try:
            completions.begin()  # begun before the task waits, as in asyncio: the tick may skip its poll
        except BaseException:
            call.cancel()  # otherwise the next wait would connect whatever has the descriptor by then
            raise
        try:
            await call
        except OSError as exc:
            error = exc.errno
            exc.__traceback__ = None  # interpreted, its frames refer to the call, and the call to it
        except GeneratorExit:
            call.cancel()  # otherwise the operation would keep the socket open after the program closes it
            raise
        else:
            return
        raise OSError(error, f"Connect call failed {address}")

    async def _until(self, sock: socket.socket, direction: int, again: Callable[[], Any]) -> Any:
        return await self._attempt(self._free_descriptor(sock.fileno()), direction, again, None)

    async def wait_writable(
        self, sock: socket.socket, again: Callable[[], Any], lend: Callable[[asyncio.Future[Any]], object] | None
    ) -> Any:
        """Call `again` whenever `sock` is writable, until it does not raise BlockingIOError; return its result.

        `lend` is called with the future that is waited for; it is given if the socket belongs to a transport.
        """
        fd = self._free_descriptor(sock.fileno()) if lend is None else sock.fileno()
        return await self._attempt(fd, WRITING, again, lend)

    def _attempt(
        self,
        fd: int,
        direction: int,
        again: Callable[[], Any],
        lend: Callable[[asyncio.Future[Any]], object] | None,
    ) -> SocketFuture:
        self._loop._check_closed()
        future = begin(self._sweeper, fd, direction, CALL, None, again)
        if lend is not None:
            lend(future)  # type: ignore[arg-type]  # a future through `__class__`
        self._watch(fd, direction, future)
        return future

    async def _resolved(self, sock: socket.socket, address: Any) -> Any:
        host, port = address[:2]
        if isinstance(port, int) and numeric_host(host, sock.family):
            return address  # with its flow label and scope id, which a look-up would lose
        infos = await self._host.getaddrinfo(host, port, family=sock.family, type=sock.type, proto=sock.proto)
        return infos[0][4]

    def check_socket(self, sock: socket.socket) -> None:
        """Raise TypeError for a TLS socket and, in debug mode, ValueError for a blocking socket."""
        if type(sock) is not _Socket and ssl is not None and isinstance(sock, ssl.SSLSocket):
            raise TypeError("Socket cannot be of type SSLSocket")
        if self._loop._slow_path_flags & _DEBUG and sock.gettimeout() != 0:
            raise ValueError("the socket must be non-blocking")


class Remainder:
    """The unsent rest of one sendall. Its view of the program's buffer is released with the last byte."""

    __slots__ = ("_sock", "_view")

    def __init__(self, sock: socket.socket, view: memoryview) -> None:
        self._sock = sock
        self._view = view

    def passes(self, sent: int) -> bool:
        """Record that `sent` bytes were sent; return whether that was all."""
        whole, self._view = self._view, self._view[sent:]
        whole.release()
        if self._view.nbytes:
            return False
        self._view.release()
        return True

    def send(self) -> None:
        if not self.passes(self._sock.send(self._view)):
            raise BlockingIOError  # the rest is sent when the socket is ready again


def descriptor_of(fd: FileDescriptorLike) -> int:
    """Return the number of a descriptor or of an object that has one. Raises ValueError, as asyncio does."""
    if isinstance(fd, int):
        number = fd
    else:
        try:
            number = int(fd.fileno())
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"Invalid file object: {fd!r}") from None
    if number < 0:
        raise ValueError(f"Invalid file descriptor: {number}")
    return number


def _end_displaced(previous: Runnable) -> None:
    if isinstance(previous, SocketFuture):
        previous.displaced()
        return
    cancel = getattr(previous, "cancel", None)
    if cancel is not None:
        cancel()


def _has_room(buf: object) -> bool:
    """Return whether `buf` surely accepts bytes: a receive into any other object must not wait for them."""
    if type(buf) is memoryview:
        return not buf.readonly and buf.nbytes > 0
    return type(buf) is bytearray and len(buf) > 0


def _is_plain(address: Any) -> bool:
    """Return whether a resolved `address` is one that the socket module accepts: host, port, perhaps flow and scope."""
    return isinstance(address[1], int) and 0 <= address[1] <= 0xFFFF and isinstance(address[0], str)


def _finish_connect(sock: socket.socket, address: Any) -> None:
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, f"Connect call failed {address}")
