"""The module `socket`, as a simulated program sees it: its class and its functions."""

import errno
import socket
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, TypeVar

from loopcore_backends.sim import names
from loopcore_backends.sim.datagrams import DatagramSocket
from loopcore_backends.sim.descriptors import error, is_simulated
from loopcore_backends.sim.streams import StreamSocket, join
from loopcore_backends.sim.world import World, the_world

T = TypeVar("T")

_READ: Final = 1
_WRITE: Final = 4
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)


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
            self._description = make_description(
                world,
                socket.AF_INET if family == -1 else family,
                socket.SOCK_STREAM if type == -1 else type,
                0 if proto == -1 else proto,
            )
            self._fd = world.descriptors.install(self._description)
            self._description.blocking = self._blocks_for != 0.0

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_fd", -1) >= 0 and self._world.is_open:
            _warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self._real_close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd={self._fd}, family={self.family}, type={self.type}>"

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AddressFamily(self._description.family)

    @property
    def type(self) -> socket.SocketKind:
        return socket.SocketKind(self._description.type)

    @property
    def proto(self) -> int:
        proto: int = self._description.proto
        return proto

    @property
    def timeout(self) -> float | None:
        return self._blocks_for

    def fileno(self) -> int:
        return self._fd

    def settimeout(self, value: float | None) -> None:
        if value is not None and value < 0.0:
            raise ValueError("Timeout value out of range")
        self._blocks_for = None if value is None else float(value)
        self._opened().blocking = value is None

    def gettimeout(self) -> float | None:
        return self._blocks_for

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._blocks_for != 0.0

    def get_inheritable(self) -> bool:
        return bool(self._opened().inheritable)

    def set_inheritable(self, inheritable: bool) -> None:
        self._opened().inheritable = inheritable

    def getsockname(self) -> Any:
        return self._opened().local

    def getpeername(self) -> Any:
        description = self._opened()
        is_connected = description.state == "connected" or description.state == "datagram"
        if not is_connected or (description.remote is None and description.peer is None):
            raise error(errno.ENOTCONN)
        return "" if description.remote is None else description.remote

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        description = self._opened()
        if level == socket.SOL_SOCKET:
            if option == socket.SO_ERROR:
                return description.take_error()
            if option == socket.SO_TYPE:
                return int(description.type)
            if option == socket.SO_ACCEPTCONN:
                return int(description.state == "listening")
            if option == getattr(socket, "SO_DOMAIN", -1):
                return int(description.family)
            if option == getattr(socket, "SO_PROTOCOL", -1):
                return description.proto
            if option == getattr(socket, "SO_PEERCRED", -1) and size:
                import struct

                return struct.pack("3i", description.host.pid, 1000, 1000)
            if option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                return description.options.get((level, option), 131_072)
        value = description.options.get((level, option), 0)
        if size:
            return value if isinstance(value, bytes) else int(value).to_bytes(4, "little")[:size]
        return value

    def setsockopt(self, level: int, option: int, value: Any, length: int | None = None) -> None:
        description = self._opened()
        if level == socket.SOL_SOCKET and option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            value = max(2 * int(value), 4608 if option == socket.SO_SNDBUF else 2304)  # as Linux does
        elif level == socket.SOL_SOCKET and option == socket.SO_LINGER:
            on, seconds = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4))
            description.options[level, option] = on, seconds
            return
        description.options[level, option] = value

    # --- what it does -------------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        self._opened().bind(self._numeric(address))

    def listen(self, backlog: int = 128) -> None:
        self._opened().listen(backlog)

    def _accept(self) -> tuple[int, Any]:
        description = self._opened()
        if description.type != socket.SOCK_STREAM:
            raise error(errno.EOPNOTSUPP)
        accepted = self._retry(description.accept, _READ)
        address = accepted.remote
        return self._world.descriptors.install(accepted), "" if address is None else address

    def accept(self) -> tuple[socket.socket, Any]:
        fd, address = self._accept()
        sock = SimSocket(fileno=fd)
        sock.setblocking(True)
        if socket.getdefaulttimeout() is not None:
            sock.settimeout(socket.getdefaulttimeout())
        return sock, address

    def connect(self, address: Any) -> None:
        description = self._opened()
        try:
            description.connect(self._numeric(address))
        except BlockingIOError as exc:
            if self._blocks_for == 0.0 or exc.errno != errno.EINPROGRESS:
                raise
        else:
            return
        if not self._wait(lambda: description.state != "connecting"):
            raise TimeoutError("timed out")
        number = description.take_error()
        if number:
            raise error(number)

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
        return self._receive(bufsize, flags)[0]

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        return self._receive(bufsize, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        data = self._receive(nbytes or len(view), flags)[0]
        view[: len(data)] = data
        return len(data)

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        view = memoryview(buffer).cast("B")
        data, address = self._receive(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data), address

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0) -> tuple[bytes, list[Any], int, Any]:
        data, address = self._receive(bufsize, flags)
        return data, [], 0, address

    def _receive(self, size: int, flags: int) -> tuple[bytes, Any]:
        if size < 0:
            raise ValueError("negative buffersize in recv")
        description = self._opened()
        peek = bool(flags & socket.MSG_PEEK)
        if isinstance(description, DatagramSocket):
            return self._retry(lambda: description.receive(size, peek=peek), _READ, flags)
        return self._retry(lambda: description.read(size, peek=peek), _READ, flags), None

    def send(self, data: Any, flags: int = 0) -> int:
        view = memoryview(data).cast("B")
        description = self._opened()
        size: int = self._retry(lambda: description.write(view), _WRITE, flags)
        return size

    def sendall(self, data: Any, flags: int = 0) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            view = view[self.send(view, flags) :]

    def sendto(self, data: Any, *flags_and_address: Any) -> int:
        address = flags_and_address[-1]
        view = memoryview(data).cast("B")
        description = self._opened()
        if isinstance(description, StreamSocket):
            return self.send(view)
        target = self._numeric(address)
        return int(self._retry(lambda: description.send_to(view, target), _WRITE))

    def sendmsg(self, buffers: Any, ancdata: Any = (), flags: int = 0, address: Any = None) -> int:
        if [*ancdata]:
            from loopcore.sim.errors import NotSimulatedError

            raise NotSimulatedError("socket.sendmsg() with ancillary data (SCM_RIGHTS ...) is not simulated")
        data = b"".join(bytes(buffer) for buffer in buffers)
        return self.send(data, flags) if address is None else self.sendto(data, address)

    def shutdown(self, how: int) -> None:
        self._opened().shutdown(how)

    def dup(self) -> "SimSocket":
        copy = SimSocket(fileno=self._world.descriptors.dup(self._fd))
        copy._blocks_for = self._blocks_for
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

    def _retry(self, call: Callable[[], T], interest: int, flags: int = 0) -> T:
        """Call until it does not block, for as long as the timeout says."""
        description = self._opened()
        does_not_wait = self._blocks_for == 0.0 or bool(flags & socket.MSG_DONTWAIT)
        deadline = None if self._blocks_for is None else self._world.now + self._blocks_for
        while True:
            try:
                return call()
            except BlockingIOError:
                if does_not_wait:
                    raise
            if not self._world.block(lambda: description.is_ready(interest), deadline):
                raise TimeoutError("timed out")

    def _wait(self, condition: Callable[[], bool]) -> bool:
        deadline = None if self._blocks_for is None else self._world.now + self._blocks_for
        return self._world.block(condition, deadline)


def make_description(world: World, family: int, kind: int, proto: int) -> Any:
    """Return a new description of a socket. Raises OSError as socket(2) does."""
    kind &= ~(getattr(socket, "SOCK_NONBLOCK", 0) | getattr(socket, "SOCK_CLOEXEC", 0))
    if family not in _FAMILIES:
        raise error(errno.EAFNOSUPPORT)
    if kind == socket.SOCK_STREAM:
        return StreamSocket(world.host, family, proto)
    if kind == socket.SOCK_DGRAM:
        return DatagramSocket(world.host, family, proto)
    raise error(errno.ESOCKTNOSUPPORT)


def replacements(world: World) -> list[tuple[ModuleType, str, object]]:
    """Return what stands in for the names of the module `socket`."""

    def socketpair(family: int | None = None, type: int = socket.SOCK_STREAM, proto: int = 0) -> Any:  # noqa: A002
        if family not in (None, socket.AF_UNIX):
            raise error(errno.EOPNOTSUPP)
        one = SimSocket(socket.AF_UNIX, type, proto)
        other = SimSocket(socket.AF_UNIX, type, proto)
        first, second = one._description, other._description
        if isinstance(first, StreamSocket):
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
        return (
            SimSocket(family, type, proto, world.descriptors.dup(fd))
            if is_simulated(fd)
            else real_fromfd(fd, family, type, proto)
        )

    real_close, real_fromfd = socket.close, socket.fromfd
    return [
        (socket, "socket", SimSocket),
        (socket, "SocketType", SimSocket),
        (socket, "socketpair", socketpair),
        (socket, "close", close),
        (socket, "fromfd", fromfd),
        *names.replacements(world),
    ]
