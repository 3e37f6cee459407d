"""Sockets: what those of streams and of datagrams have in common, and addresses as Python's sockets give them.

The names of fields that Linux has as well follow it: `shut` is its sk_shutdown, `error` its sk_err.
"""

import errno
import socket
from typing import TYPE_CHECKING, Any, Final

from loopcore_backends.sim.descriptors import Description, error

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host

RECEIVING: Final = 1
SENDING: Final = 2
BOTH: Final = RECEIVING | SENDING
"""Bits of `shut`."""


class Socket(Description):
    """A socket of any family and type."""

    kind = "socket"
    type: int
    buffer: int
    """SO_SNDBUF and SO_RCVBUF, unless the program sets them."""

    def __init__(self, host: "Host", family: int, proto: int = 0) -> None:
        super().__init__(host)
        self.family = family
        self.proto = proto
        self.options: dict[tuple[int, int], Any] = {}
        self.local: Any = empty_address(family)
        self.remote: Any = None
        self.error = 0
        self.shut = 0
        self._is_bound = False

    # --- for each family and type -------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        """bind(2)."""
        raise NotImplementedError

    def listen(self, backlog: int) -> None:
        """listen(2)."""
        raise error(errno.EOPNOTSUPP)

    def accept(self) -> Any:
        """accept(2)."""
        raise error(errno.EOPNOTSUPP)

    def connect(self, address: Any) -> None:
        """connect(2), of a socket that does not block. Raises OSError, EINPROGRESS among them."""
        raise NotImplementedError

    def peer_name(self) -> Any:
        """getpeername(2)."""
        raise NotImplementedError

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        """sendto(2) with an address."""
        raise NotImplementedError

    def shutdown(self, how: int) -> None:
        """shutdown(2)."""
        raise NotImplementedError

    # --- for all ------------------------------------------------------------------------------------

    def take_error(self) -> int:
        """Return the pending error, and forget it (SO_ERROR)."""
        number, self.error = self.error, 0
        return number

    def _raise_pending(self) -> None:
        if self.error:
            raise error(self.take_error())

    def _buffer(self, option: int) -> int:
        size: int = self.options.get((socket.SOL_SOCKET, option), self.buffer)
        return size


class InternetSocket(Socket):
    """A socket of AF_INET or AF_INET6."""

    @property
    def reuses_address(self) -> bool:
        """SO_REUSEADDR."""
        return bool(self.options.get((socket.SOL_SOCKET, socket.SO_REUSEADDR)))

    @property
    def reuses_port(self) -> bool:
        """SO_REUSEPORT."""
        return bool(self.options.get((socket.SOL_SOCKET, socket.SO_REUSEPORT)))

    def _bind(self, address: Any) -> None:
        if self._is_bound:
            raise error(errno.EINVAL)
        self.local = self.host.bind_port(self, address)
        self._is_bound = True

    def _source_for(self, ip: str, target: "Host") -> str:
        """Return the own address from which this socket talks to `ip`, an address of `target`."""
        return ip if target is self.host else self.host.addresses[self.family == socket.AF_INET6]

    def _concrete(self, ip: str) -> str:
        """Return `ip`, or the loopback address if it stands for all of the host's."""
        if not is_any(ip):
            return ip
        return "127.0.0.1" if self.family == socket.AF_INET else "::1"


def shutdown_bits(how: int) -> int:
    """Return the bits of `shut` that shutdown(2) sets. Raises OSError(EINVAL)."""
    if how not in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
        raise error(errno.EINVAL)
    return how + 1


def empty_address(family: int) -> Any:
    """Return what getsockname(2) says of a socket that is not bound."""
    return "" if family == socket.AF_UNIX else full_address(family, any_address(family), 0)


def any_address(family: int) -> str:
    """Return the address that stands for all of a host's."""
    return "::" if family == socket.AF_INET6 else "0.0.0.0"


def full_address(family: int, ip: str, port: int) -> Any:
    """Return an address as Python's sockets give it."""
    return (ip, port, 0, 0) if family == socket.AF_INET6 else (ip, port)


def mapped(address: Any) -> Any:
    """Return an IPv4 address as IPv6 shows it."""
    return (f"::ffff:{address[0]}", address[1], 0, 0)


def path_of(address: Any) -> str:
    """Return the name of a Unix socket; one in the abstract namespace begins with NUL."""
    path = address.decode("utf-8", "surrogateescape") if isinstance(address, (bytes, bytearray)) else str(address)
    if len(path) > 107:
        raise OSError("AF_UNIX path too long")
    return path


def name_of(path: str) -> Any:
    """Return the name of a Unix socket as Python gives it: bytes in the abstract namespace."""
    return path.encode("utf-8", "surrogateescape") if path.startswith("\0") else path


def show_address(address: Any) -> str:
    """Return an address for people."""
    if isinstance(address, tuple):
        return f"[{address[0]}]:{address[1]}" if len(address) == 4 else f"{address[0]}:{address[1]}"
    return path_of(address or "").replace("\0", "@") or "a nameless socket"


def is_any(address: str) -> bool:
    """Return whether this is the address that stands for all of a host's."""
    return address in ("", "0.0.0.0", "::", "::ffff:0.0.0.0")
