"""Socket operations: add_reader and its relatives, and the sock_* coroutines over plain sockets.

Every sock_* call tries first and waits only if the kernel says "not now"; it then puts an Attempt into the readiness
table, which tries again whenever the descriptor is ready, until it succeeds, fails, or is called off. The watch
ends with the operation, at the latest when the waiting coroutine is left (cancelled, closed): it has no
descriptor, no buffer and no callback to clean up afterwards.

As in asyncio one operation a direction and descriptor can wait; a second one takes the first one's place, and
the first then waits for ever. That is the caller's mistake, and it is not detected.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from loopcore.kernel.completions import Completions
from loopcore.kernel.handle import Handle
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable
from loopcore.operations import Connect
from loopcore.services.call import OperationCall
from loopcore.services.literals import numeric_host

FileDescriptorLike: TypeAlias = Any
"""An int, or an object with `fileno()`."""

Callback: TypeAlias = Callable[..., object]

READING, WRITING = False, True


class SockHost(Protocol):
    """What socket operations need of a loop."""

    readiness: Readiness
    completions: Completions | None

    def create_future(self) -> asyncio.Future[Any]: ...

    def is_closed(self) -> bool: ...

    def get_debug(self) -> bool: ...

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> Any: ...


class ClosingTransport(Protocol):
    def is_closing(self) -> bool: ...


class Attempt(Runnable):
    """An operation that is tried again whenever its descriptor is ready, and the future of its result."""

    __slots__ = ("_direction", "_fd", "_readiness", "_try", "_watching", "future")

    def __init__(
        self, readiness: Readiness, fd: int, direction: bool, future: asyncio.Future[Any], again: Callable[[], Any]
    ) -> None:
        self._readiness = readiness
        self._fd = fd
        self._direction = direction
        self._try = again
        self._watching = True
        self.future: Any = future

    def _run(self) -> None:
        if self.future.done():
            return  # cancelled in this very tick; the coroutine ends the watch when it resumes
        try:
            result = self._try()
        except (BlockingIOError, InterruptedError):
            return
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.end()
            self.future.set_exception(exc)
            self.future = None  # the error's traceback holds this frame, and so `self` until the error goes
        else:
            self.end()
            self.future.set_result(result)

    def cancel(self) -> None:
        """Note that something else took the place in the table."""
        self._watching = False

    def end(self) -> None:
        """Leave the table, if still in it."""
        if self._watching:
            self._watching = False
            if self._direction is READING:
                self._readiness.clear_reader(self._fd)
            else:
                self._readiness.clear_writer(self._fd)


class SockOps:
    """Watching descriptors, and operations on sockets. Thread: the loop's own."""

    __slots__ = ("_host", "_loop", "_readiness", "_transports")

    def __init__(self, host: SockHost, loop: Any, transports: Mapping[int, ClosingTransport]) -> None:
        self._host = host
        self._loop = loop  # handed on to the handles, which belong to it; not used here
        self._readiness = host.readiness
        self._transports = transports

    # --- watching -----------------------------------------------------------------------------------

    def add_reader(self, fd: FileDescriptorLike, callback: Callback, args: tuple[Any, ...]) -> None:
        """Call `callback(*args)` whenever `fd` is readable, in place of whatever was called before."""
        self._add(fd, READING, callback, args)

    def add_writer(self, fd: FileDescriptorLike, callback: Callback, args: tuple[Any, ...]) -> None:
        """Call `callback(*args)` whenever `fd` is writable, in place of whatever was called before."""
        self._add(fd, WRITING, callback, args)

    def remove_reader(self, fd: FileDescriptorLike) -> bool:
        """Stop watching `fd` for reading; return whether it was watched."""
        return self._remove(fd, READING)

    def remove_writer(self, fd: FileDescriptorLike) -> bool:
        """Stop watching `fd` for writing; return whether it was watched."""
        return self._remove(fd, WRITING)

    def _add(self, fd: FileDescriptorLike, direction: bool, callback: Callback, args: tuple[Any, ...]) -> None:
        number = self._free_descriptor(fd)
        self._check_closed()
        self._watch(number, direction, Handle(callback, args, self._loop, None))
        if number is not fd:
            self._readiness.note_fileobj(number, fd)

    def _remove(self, fd: FileDescriptorLike, direction: bool) -> bool:
        table = self._readiness
        try:
            number = self._free_descriptor(fd)
        except ValueError:
            # Closed first, and removed afterwards: it has no number any more, but the table remembers it.
            found = table.find(fd)
            if found is None:
                raise
            number = found
        if self._host.is_closed():
            return False
        previous = table.clear_reader(number) if direction is READING else table.clear_writer(number)
        if previous is None:
            return False
        _call_off(previous)
        return True

    def _watch(self, fd: int, direction: bool, runnable: Runnable) -> None:
        table = self._readiness
        previous = table.set_reader(fd, runnable) if direction is READING else table.set_writer(fd, runnable)
        if previous is not None:
            _call_off(previous)

    def _free_descriptor(self, fd: FileDescriptorLike) -> int:
        """Return the number of `fd`; raise RuntimeError if a transport owns it."""
        number = descriptor_of(fd)
        transport = self._transports.get(number)
        if transport is not None and not transport.is_closing():
            raise RuntimeError(f"File descriptor {fd!r} is used by transport {transport!r}")
        return number

    def _check_closed(self) -> None:
        if self._host.is_closed():
            raise RuntimeError("Event loop is closed")

    # --- operations ---------------------------------------------------------------------------------

    async def recv(self, sock: socket.socket, n: int) -> bytes:
        """Receive at most `n` bytes; b"" means the peer has ended."""
        self.check_socket(sock)
        try:
            return sock.recv(n)
        except (BlockingIOError, InterruptedError):
            pass
        received: bytes = await self._until(sock, READING, lambda: sock.recv(n))
        return received

    async def recv_into(self, sock: socket.socket, buf: Any) -> int:
        """Receive into `buf`; return the number of bytes."""
        self.check_socket(sock)
        try:
            return sock.recv_into(buf)
        except (BlockingIOError, InterruptedError):
            pass
        count: int = await self._until(sock, READING, lambda: sock.recv_into(buf))
        return count

    async def recvfrom(self, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
        """Receive a datagram; return it and who sent it."""
        self.check_socket(sock)
        try:
            return sock.recvfrom(bufsize)
        except (BlockingIOError, InterruptedError):
            pass
        datagram: tuple[bytes, Any] = await self._until(sock, READING, lambda: sock.recvfrom(bufsize))
        return datagram

    async def recvfrom_into(self, sock: socket.socket, buf: Any, nbytes: int = 0) -> tuple[int, Any]:
        """Receive a datagram into `buf`, at most `nbytes` of it; return its size and who sent it."""
        self.check_socket(sock)
        limit = nbytes or len(buf)
        try:
            return sock.recvfrom_into(buf, limit)
        except (BlockingIOError, InterruptedError):
            pass
        received: tuple[int, Any] = await self._until(sock, READING, lambda: sock.recvfrom_into(buf, limit))
        return received

    async def sendall(self, sock: socket.socket, data: Any) -> None:
        """Send all of `data`. When it is cancelled, nobody can tell how much has been sent."""
        self.check_socket(sock)
        try:
            sent = sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        view = memoryview(data).cast("B")
        if sent < len(view):
            await self._until(sock, WRITING, _Remainder(sock, view[sent:]).send)

    async def sendto(self, sock: socket.socket, data: Any, address: Any) -> int:
        """Send a datagram; return the number of bytes."""
        self.check_socket(sock)
        try:
            return sock.sendto(data, address)
        except (BlockingIOError, InterruptedError):
            pass
        count: int = await self._until(sock, WRITING, lambda: sock.sendto(data, address))
        return count

    async def accept(self, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection; return its socket, made non-blocking, and the peer's address."""
        self.check_socket(sock)
        try:
            return _accept(sock)
        except (BlockingIOError, InterruptedError):
            pass
        accepted: tuple[socket.socket, Any] = await self._until(sock, READING, lambda: _accept(sock))
        return accepted

    async def connect(self, sock: socket.socket, address: Any) -> None:
        """Connect to `address`, whose host may be a name; it is looked up first."""
        self.check_socket(sock)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            address = await self._resolved(sock, address)
            completions = self._host.completions
            if completions is not None and sock.type == socket.SOCK_STREAM and _is_plain(address):
                await self._connect_by_port(sock, address, completions)
                return
        try:
            sock.connect(address)
        except BlockingIOError as exc:
            if exc.errno != errno.EINPROGRESS and sock.family == getattr(socket, "AF_UNIX", None):
                # EAGAIN: the backlog is full, and nothing is under way that could be waited for (connect(2)).
                # asyncio waits none the less, and takes the idle socket's writability for success.
                raise
        except InterruptedError:
            pass  # goes on in the background (connect(2), EINTR)
        else:
            return
        await self._until(sock, WRITING, lambda: _finish_connect(sock, address))

    async def _connect_by_port(self, sock: socket.socket, address: Any, completions: Completions) -> None:
        self._check_closed()
        fd = self._free_descriptor(sock.fileno())
        try:
            await OperationCall(self._loop, "", completions, Connect(fd, address), False)
        except OSError as exc:
            error = exc.errno
        else:
            return
        raise OSError(error, f"Connect call failed {address}")

    async def _until(self, sock: socket.socket, direction: bool, again: Callable[[], Any]) -> Any:
        return await self._attempt(self._free_descriptor(sock.fileno()), direction, again, None)

    async def wait_writable(
        self, sock: socket.socket, again: Callable[[], Any], lend: Callable[[asyncio.Future[Any]], object] | None
    ) -> Any:
        """Call `again` whenever `sock` is writable, until it does not raise BlockingIOError; return what it returns.

        `lend` is called with the future that is waited for, and says with it that the socket is a transport's.
        """
        fd = self._free_descriptor(sock.fileno()) if lend is None else sock.fileno()
        return await self._attempt(fd, WRITING, again, lend)

    async def _attempt(
        self,
        fd: int,
        direction: bool,
        again: Callable[[], Any],
        lend: Callable[[asyncio.Future[Any]], object] | None,
    ) -> Any:
        self._check_closed()
        attempt = Attempt(self._readiness, fd, direction, self._host.create_future(), again)
        if lend is not None:
            lend(attempt.future)
        self._watch(fd, direction, attempt)
        try:
            return await attempt.future
        finally:
            attempt.end()

    async def _resolved(self, sock: socket.socket, address: Any) -> Any:
        host, port = address[:2]
        if isinstance(port, int) and numeric_host(host, sock.family):
            return address  # with its flow label and scope id, which a look-up would lose
        infos = await self._host.getaddrinfo(host, port, family=sock.family, type=sock.type, proto=sock.proto)
        return infos[0][4]

    def check_socket(self, sock: socket.socket) -> None:
        """Raise TypeError for a TLS socket and, in debug mode, ValueError for one that blocks."""
        if isinstance(sock, ssl.SSLSocket):
            raise TypeError("Socket cannot be of type SSLSocket")
        if self._host.get_debug() and sock.gettimeout() != 0:
            raise ValueError("the socket must be non-blocking")


class _Remainder:
    """What is left to send of one sendall."""

    __slots__ = ("_sock", "_view")

    def __init__(self, sock: socket.socket, view: memoryview) -> None:
        self._sock = sock
        self._view = view

    def send(self) -> None:
        self._view = self._view[self._sock.send(self._view) :]
        if self._view:
            raise BlockingIOError  # the rest when the socket is ready again


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


def _call_off(previous: Runnable) -> None:
    cancel = getattr(previous, "cancel", None)
    if cancel is not None:
        cancel()


def _is_plain(address: Any) -> bool:
    """Tell whether `address` is what the socket module takes: a numeric host and a port, perhaps flow and scope."""
    return isinstance(address[1], int) and 0 <= address[1] <= 0xFFFF and isinstance(address[0], str)


def _accept(sock: socket.socket) -> tuple[socket.socket, Any]:
    connection, address = sock.accept()
    connection.setblocking(False)
    return connection, address


def _finish_connect(sock: socket.socket, address: Any) -> None:
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, f"Connect call failed {address}")
