"""The module `socket`, as a simulated program sees it: its class and its functions."""

import errno
import socket
import struct
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from loopcore.ports.interest import READ, WRITE
from loopcore.sim.errors import NotSimulatedError
from loopcore_backends.sim import names
from loopcore_backends.sim.datagrams import DatagramSocket, UdpSocket, UnixDatagramSocket
from loopcore_backends.sim.descriptors import error, is_simulated, scatter
from loopcore_backends.sim.replacing import Replacement
from loopcore_backends.sim.socket_base import path_of
from loopcore_backends.sim.streams import BUFFER, StreamSocket
from loopcore_backends.sim.tcp import TcpSocket
from loopcore_backends.sim.unix import UnixSocket, find_name, join
from loopcore_backends.sim.world import World, the_world

T = TypeVar("T")

_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
_NONBLOCK: Final = getattr(socket, "SOCK_NONBLOCK", 0)
_FLAGS: Final = _NONBLOCK | getattr(socket, "SOCK_CLOEXEC", 0)
_PROTOCOLS: Final = {socket.SOCK_STREAM: socket.IPPROTO_TCP, socket.SOCK_DGRAM: socket.IPPROTO_UDP}
_SO_DOMAIN: Final = getattr(socket, "SO_DOMAIN", 39)
_SO_PROTOCOL: Final = getattr(socket, "SO_PROTOCOL", 38)
_SO_PEERCRED: Final = getattr(socket, "SO_PEERCRED", 17)
_READ_ONLY: Final = (socket.SO_ERROR, socket.SO_TYPE, socket.SO_ACCEPTCONN, _SO_DOMAIN, _SO_PROTOCOL, _SO_PEERCRED)
_LAST_OPTION: Final = 83
"""The highest option of SOL_SOCKET that Linux has: ENOPROTOOPT above."""
_SWITCHES: Final = (socket.SO_REUSEADDR, socket.SO_KEEPALIVE, socket.SO_BROADCAST, socket.SO_OOBINLINE)
_LEAST: Final = {socket.SO_SNDBUF: 4608, socket.SO_RCVBUF: 2304}


class SimSocket(socket.socket):
    """A `socket.socket` without an operating system."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:  # noqa: A002
        # The base class's __init__ would ask the kernel for a socket; its __new__ has made one without a descriptor.
        self._io_refs = 0
        self._closed = False
        self._fd = -1
        self._blocks_for: float | None = socket.getdefaulttimeout()
        world = the_world()
        self._world = world
        if fileno is not None:
            if not isinstance(fileno, int) or isinstance(fileno, bool):
                raise TypeError(f"'{fileno.__class__.__name__}' object cannot be interpreted as an integer")
            if fileno < 0:
                raise ValueError("negative file descriptor")
            description = world.descriptors.get(fileno)
            if not isinstance(description, (StreamSocket, DatagramSocket)):
                raise error(errno.ENOTSOCK)
            self._description: Any = description
            self._fd = fileno
        else:
            kind = socket.SOCK_STREAM if type == -1 else type
            self._description = make_description(
                world, socket.AF_INET if family == -1 else family, kind, 0 if proto == -1 else proto
            )
            self._fd = world.descriptors.install(self._description)
            if kind & _NONBLOCK:
                self._blocks_for = 0.0
                self._description.blocking = False
        self._proto: int = (
            proto if proto != -1 else 0 if fileno is None else _socket_option(self._description, _SO_PROTOCOL)
        )
        if self._blocks_for is not None:
            self._description.blocking = False

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_fd", -1) >= 0 and self._world.is_open:
            _warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self._real_close()

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AddressFamily(self._description.family)

    @property
    def type(self) -> socket.SocketKind:
        return socket.SocketKind(self._description.type)

    @property
    def proto(self) -> int:
        return self._proto

    @property
    def timeout(self) -> float | None:
        return self._blocks_for

    def fileno(self) -> int:
        return self._fd

    def settimeout(self, value: float | None) -> None:
        if value is not None:
            if not isinstance(value, (int, float)) and not hasattr(value, "__index__"):
                raise TypeError(f"'{value.__class__.__name__}' object cannot be interpreted as an integer")
            value = float(value)
            if value != value:
                raise ValueError("Invalid value NaN (not a number)")
            if value < 0.0:
                raise ValueError("Timeout value out of range")
        description = self._opened()
        self._blocks_for = value
        description.blocking = value is None

    def gettimeout(self) -> float | None:
        return self._blocks_for

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._blocks_for != 0.0

    def get_inheritable(self) -> bool:
        self._opened()
        return self._world.descriptors.is_inheritable(self._fd)

    def set_inheritable(self, inheritable: bool) -> None:
        self._opened()
        self._world.descriptors.set_inheritable(self._fd, inheritable)

    def getsockname(self) -> Any:
        return self._opened().local

    def getpeername(self) -> Any:
        return self._opened().peer_name()

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        description = self._opened()
        if level == socket.SOL_SOCKET:
            if option == _SO_PEERCRED and size:
                return struct.pack("3i", description.host.pid, 1000, 1000)
            if option == socket.SO_LINGER:
                on, seconds = description.options.get((level, option), (0, 0))
                return struct.pack("ii", on, seconds)[:size] if size else on
            value = _socket_option(description, option)
        else:
            _check_level(description, level)
            value = description.options.get((level, option), 0)
        if not size:
            return value if isinstance(value, int) else int.from_bytes(value[:4], "little")
        return value[:size] if isinstance(value, bytes) else int(value).to_bytes(4, "little", signed=True)[:size]

    def setsockopt(self, level: int, option: int, value: Any, *length: int) -> None:
        description = self._opened()
        if value is None and length:
            value = bytes(*length)
        if not isinstance(value, int):
            value = bytes(value)
            if len(value) == 4:
                value = int.from_bytes(value, "little", signed=True)
        if level != socket.SOL_SOCKET:
            _check_level(description, level)
        elif option in _READ_ONLY or not 0 < option <= _LAST_OPTION:
            raise error(errno.ENOPROTOOPT)
        elif option in _LEAST:
            value = max(2 * int(value), _LEAST[option])  # as Linux does
        elif option == socket.SO_LINGER:
            if isinstance(value, int) or len(value) < 8:
                raise error(errno.EINVAL)
            value = struct.unpack("ii", value[:8])
        elif isinstance(value, int):
            value = int(bool(value)) if option in _SWITCHES else value
        description.options[level, option] = value
        description.changed()

    # --- what it does -------------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        self._opened().bind(self._numeric(address))

    def listen(self, backlog: int = 128) -> None:
        self._opened().listen(max(0, backlog))

    def _accept(self) -> tuple[int, Any]:
        accepted = self._retry(self._opened().accept, READ)
        address = accepted.remote
        return self._world.descriptors.install(accepted), "" if address is None else address

    def accept(self) -> tuple[socket.socket, Any]:
        fd, address = self._accept()
        sock = SimSocket(self.family, self.type, self.proto, fd)
        if socket.getdefaulttimeout() is None and self._blocks_for:
            sock.setblocking(True)
        return sock, address

    def connect(self, address: Any) -> None:
        description = self._opened()
        target = self._numeric(address)
        waits = self._waits(0)
        try:
            description.connect(target)
            return
        except BlockingIOError as exc:
            if not waits or exc.errno not in (errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN):
                raise
            if exc.errno == errno.EAGAIN:  # a Unix socket whose queue is full
                self._connect_later(target)
                return
        if not self._wait(lambda: description.state != "connecting"):
            raise TimeoutError("timed out")
        if self._blocks_for is None:
            description.connect(target)
            return
        number = description.take_error()
        if number:
            raise error(number)

    def _connect_later(self, target: Any) -> None:
        if self._blocks_for is not None:
            raise error(errno.EAGAIN)  # as connect(2) of a socket that does not block
        while True:
            listener = find_name(self._description, path_of(target))
            self._world.block(partial(_takes_connections, listener))
            try:
                self._description.connect(target)
                return
            except BlockingIOError:
                pass  # another one was faster

    def connect_ex(self, address: Any) -> int:
        try:
            self.connect(address)
        except TimeoutError as exc:
            return exc.errno or errno.EAGAIN
        except OSError as exc:
            if exc.errno is None or isinstance(exc, socket.gaierror):
                raise
            return exc.errno
        return 0

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        if not bufsize:
            self._opened()
            return b""  # without asking the kernel, as Python does
        return self._receive(bufsize, flags)[0]

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        data, address, _ = self._receive(bufsize, flags)
        return data, address

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view, size = _room(buffer, nbytes, "recv_into")
        if not size:
            self._opened()
            return 0
        data = self._receive(size, flags)[0]
        view[: len(data)] = data
        return len(data)

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        view, size = _room(buffer, nbytes, "recvfrom_into")
        data, address, _ = self._receive(size, flags)
        view[: len(data)] = data
        return len(data), address

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0) -> tuple[bytes, list[Any], int, Any]:
        if bufsize < 0:
            raise ValueError("negative buffer size in recvmsg()")
        data, address, is_cut = self._receive(bufsize, flags)
        return data, [], int(socket.MSG_TRUNC) if is_cut else 0, address

    def recvmsg_into(self, buffers: Any, ancbufsize: int = 0, flags: int = 0) -> tuple[int, list[Any], int, Any]:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        data, address, is_cut = self._receive(sum(map(len, views)), flags)
        scatter(data, views)
        return len(data), [], int(socket.MSG_TRUNC) if is_cut else 0, address

    def _receive(self, size: int, flags: int) -> tuple[bytes, Any, bool]:
        """Receive; return the bytes, where they are from, and whether the datagram was longer."""
        if size < 0:
            raise ValueError("negative buffersize in recv")
        description = self._opened()
        peek = bool(flags & socket.MSG_PEEK)
        if isinstance(description, DatagramSocket):
            data, address = self._retry(lambda: description.receive(size, peek=peek), READ, flags)
            return data[:size], address, len(data) > size
        data = self._retry(lambda: description.read(size, peek=peek), READ, flags)
        if flags & socket.MSG_WAITALL and not peek and self._waits(flags):
            while len(data) < size:
                more = self._retry(partial(description.read, size - len(data)), READ, flags)
                if not more:
                    break
                data += more
        is_named = isinstance(description, UnixSocket) and description.remote is not None
        return data, description.remote if is_named else None, False

    def send(self, data: Any, flags: int = 0) -> int:
        view = memoryview(data).cast("B")
        description = self._opened()
        if not isinstance(description, StreamSocket) or not self._waits(flags) or self._blocks_for is not None:
            size: int = self._retry(lambda: description.write_some(view), WRITE, flags)
            return size
        sent: int = self._retry(lambda: description.write(view), WRITE, flags)
        while sent < len(view):  # send(2) that blocks takes it all
            try:
                sent += self._retry(partial(description.write, view[sent:]), WRITE, flags)
            except OSError:
                break  # the next call reports it
        return sent

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data).cast("B")
        deadline = None if not self._blocks_for else self._world.deadline_after(self._blocks_for)
        description = self._opened()
        sent = 0
        while True:
            sent += self._retry(partial(description.write, view[sent:]), WRITE, flags, deadline)
            if sent >= len(view):
                return

    def sendto(self, data: Any, *flags_and_address: Any) -> int:
        if not 1 <= len(flags_and_address) <= 2:
            raise TypeError(f"sendto() takes 2 or 3 arguments ({1 + len(flags_and_address)} given)")
        view = memoryview(data).cast("B")
        flags = flags_and_address[0] if len(flags_and_address) == 2 else 0
        target = self._numeric(flags_and_address[-1])
        description = self._opened()
        return int(self._retry(lambda: description.send_to(view, target), WRITE, flags))

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None) -> int:
        if [*ancdata]:
            raise NotSimulatedError("socket.sendmsg() with ancillary data (SCM_RIGHTS ...) is not simulated")
        data = b"".join(bytes(buffer) for buffer in buffers)
        return self.send(data, flags) if address is None else self.sendto(data, flags, address)

    def shutdown(self, how: int) -> None:
        self._opened().shutdown(how)

    def dup(self) -> "SimSocket":
        copy = SimSocket(self.family, self.type, self.proto, self._world.descriptors.dup(self._fd))
        copy.settimeout(self._blocks_for)
        return copy

    def detach(self) -> int:
        fd, self._fd = self._fd, -1
        self._closed = True
        return fd

    def _real_close(self, *_: Any) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0 and self._world.is_open:
            self._world.descriptors.close(fd)

    # --- waiting ------------------------------------------------------------------------------------

    def _opened(self) -> Any:
        if self._fd < 0:
            raise error(errno.EBADF)
        return self._world.descriptors.get(self._fd)

    def _numeric(self, address: Any) -> Any:
        return names.numeric(self._world, self._description.family, address)

    def _waits(self, flags: int) -> bool:
        """Return whether a call waits: for its timeout, or in the kernel if the descriptor blocks."""
        if self._blocks_for:
            return True
        return bool(self._description.blocking) and not flags & socket.MSG_DONTWAIT

    def _retry(self, call: Callable[[], T], interest: int, flags: int = 0, deadline: float | None = None) -> T:
        """Call until it does not block, for as long as the timeout says."""
        description = self._opened()
        if deadline is None and self._blocks_for:
            deadline = self._world.deadline_after(self._blocks_for)
        while True:
            try:
                return call()
            except BlockingIOError:
                if not self._waits(flags):
                    raise
            if not self._world.block(lambda: description.is_ready(interest), deadline):
                raise TimeoutError("timed out")

    def _wait(self, condition: Callable[[], bool]) -> bool:
        deadline = None if self._blocks_for is None else self._world.deadline_after(self._blocks_for)
        return self._world.block(condition, deadline)


# A program that prints a socket, or asks for its class by name, sees Python's own.
SimSocket.__name__ = SimSocket.__qualname__ = "socket"
SimSocket.__module__ = "socket"


def _takes_connections(listener: Any) -> bool:
    return listener.state != "listening" or not listener.is_full()


def _room(buffer: Any, nbytes: int, function: str) -> tuple[memoryview, int]:
    view = memoryview(buffer).cast("B")
    if view.readonly:
        raise TypeError(f"{function}() argument 1 must be read-write bytes-like object, not {type(buffer).__name__}")
    if nbytes < 0:
        raise ValueError(f"negative buffersize in {function}")
    if nbytes > len(view):
        raise ValueError(
            "buffer too small for requested bytes"
            if function == "recv_into"
            else "nbytes is greater than the length of the buffer"
        )
    return view, nbytes or len(view)


def _socket_option(description: Any, option: int) -> Any:
    if option == socket.SO_ERROR:
        return description.take_error()
    if option == socket.SO_TYPE:
        return int(description.type)
    if option == socket.SO_ACCEPTCONN:
        return int(description.state == "listening")
    if option == _SO_DOMAIN:
        return int(description.family)
    if option == _SO_PROTOCOL:
        return 0 if description.family == socket.AF_UNIX else int(_PROTOCOLS[description.type])
    if not 0 < option <= _LAST_OPTION:
        raise error(errno.ENOPROTOOPT)
    default = BUFFER if option in _LEAST else 0
    return description.options.get((socket.SOL_SOCKET, option), default)


def _check_level(description: Any, level: int) -> None:
    if description.family == socket.AF_UNIX:
        raise error(errno.EOPNOTSUPP)
    if level == socket.IPPROTO_TCP and description.type != socket.SOCK_STREAM:
        raise error(errno.ENOPROTOOPT)


def make_description(world: World, family: int, kind: int, proto: int) -> Any:
    """Return a new description of a socket. Raises OSError as socket(2) does."""
    if kind & ~(_FLAGS | 15):
        raise error(errno.EINVAL)
    kind &= 15
    if family not in _FAMILIES:
        raise error(errno.EAFNOSUPPORT)
    if family == socket.AF_UNIX and kind == getattr(socket, "SOCK_SEQPACKET", None):
        raise NotSimulatedError("a Unix socket of type SOCK_SEQPACKET is not simulated: use SOCK_STREAM or SOCK_DGRAM")
    if kind not in _PROTOCOLS:
        raise error(errno.ESOCKTNOSUPPORT)
    if family == socket.AF_UNIX:
        if proto not in (0, int(socket.AF_UNIX)):
            raise error(errno.EPROTONOSUPPORT)
        unix = UnixSocket if kind == socket.SOCK_STREAM else UnixDatagramSocket
        return unix(world.host, family, proto)
    if proto not in (0, _PROTOCOLS[socket.SocketKind(kind)]):
        raise error(errno.EPROTONOSUPPORT)
    return (TcpSocket if kind == socket.SOCK_STREAM else UdpSocket)(world.host, family, proto)


def replacements(world: World) -> list[Replacement]:
    """Return what stands in for the names of the module `socket`."""

    def socketpair(family: int | None = None, type: int = socket.SOCK_STREAM, proto: int = 0) -> Any:  # noqa: A002
        if family not in (None, socket.AF_UNIX):
            raise error(errno.EOPNOTSUPP)
        one = SimSocket(socket.AF_UNIX, type, proto)
        other = SimSocket(socket.AF_UNIX, type, proto)
        first, second = one._description, other._description
        if isinstance(first, UnixSocket):
            join(first, second)
        else:
            first.peer, second.peer = second, first
        return one, other

    def close(fd: int) -> None:
        if is_simulated(fd):
            world.descriptors.close(fd)
        else:
            real_close(fd)

    def fromfd(fd: int, family: int, type: int, proto: int = 0) -> Any:  # noqa: A002
        if is_simulated(fd):
            return SimSocket(family, type, proto, world.descriptors.dup(fd))
        return real_fromfd(fd, family, type, proto)

    real_close, real_fromfd = socket.close, socket.fromfd
    return [
        (socket, "socket", SimSocket),
        (socket, "SocketType", SimSocket),
        (socket, "socketpair", socketpair),
        (socket, "close", close),
        (socket, "fromfd", fromfd),
        *names.replacements(world),
    ]
