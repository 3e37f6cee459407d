"""AcceptedSocket: the descriptor of an accepted connection, with a `socket.socket` made on demand.

A transport needs only the descriptor of its socket, and a way to close it; few programs ask for more. Making the
`socket.socket` takes longer than accept(2) and costs a system call (getsockname, with which the constructor checks the
family). It is therefore made on the first access to anything that AcceptedSocket lacks, and owns the descriptor from
then on.

Thread: the loop's own.
"""

import socket
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    T = TypeVar("T")

    class Owner(Protocol):
        """The owner of a descriptor: an AcceptedSocket, a socket, or the file of a pipe."""

        def fileno(self) -> int: ...

        def close(self) -> object: ...


class AcceptedSocket:
    """An open descriptor without its socket object. `kind` is (family, type, protocol), for the constructor."""

    __slots__ = ("_fd", "_kind", "_made", "_is_open")

    def __init__(self, fd: int, kind: tuple[int, int, int]) -> None:
        self._fd: int = fd
        family, type_, protocol = kind
        self._kind: tuple[int, int, int] = (family, type_, protocol)
        self._made: socket.socket | None = None
        # Set last: an object that is not fully initialised owns no descriptor, and must not close number 0.
        self._is_open: bool = True
        """Whether the descriptor is open and owned here: False once the socket object owns it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd={self.fileno()}>"

    def __del__(self) -> None:
        if self._is_open:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)
            finally:  # the warning may be an error
                self.close()

    def __getattr__(self, name: str) -> Any:
        if name in AcceptedSocket.__slots__:
            raise AttributeError(f"{type(self).__name__} was never initialised")
        return getattr(self.made(), name)

    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""
        if self._made is not None:
            return self._made.fileno()
        return self._fd if self._is_open else -1

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self._made is not None:
            self._made.close()
        elif self._is_open:
            self._is_open = False
            socket.close(self._fd)

    def made(self) -> socket.socket:
        """Return the socket object: always the same one, closed if the descriptor is closed."""
        if self._made is None:
            if self._is_open:
                try:
                    self._made = socket.socket(*self._kind, fileno=self._fd)
                except OSError:
                    return closed_socket(*self._kind)  # the descriptor was closed elsewhere; `close` will raise
                self._is_open = False
            else:
                self._made = closed_socket(*self._kind)
        return self._made


def closed_socket(family: int, kind: int, proto: int) -> socket.socket:
    """Return a closed socket. Its family is unknown if no descriptor is available at the moment."""
    try:
        sock = socket.socket(family, kind, proto)
    except OSError:
        sock = socket.socket.__new__(socket.socket)
        sock._io_refs = 0  # type: ignore[attr-defined]  # what `__init__` sets, and `close` asks for
    sock.close()
    return sock


def number_of(sock: "Owner") -> int:
    """Return the descriptor of `sock`, an AcceptedSocket, a socket or the file of a pipe; -1 once it is closed."""
    if type(sock) is AcceptedSocket:
        accepted = sock
        return accepted.fileno()
    try:
        number: int = sock.fileno()
    except ValueError:  # raised by a closed file
        return -1
    return number


def close_socket(sock: "Owner") -> None:
    """Close `sock`, an AcceptedSocket or any other. Raises OSError if its descriptor was closed elsewhere."""
    if type(sock) is AcceptedSocket:
        accepted = sock
        accepted.close()
    else:
        sock.close()


def real_socket(sock: "AcceptedSocket | T") -> "socket.socket | T":
    """Return the socket object of an AcceptedSocket, made if necessary; any other `sock` unchanged."""
    return sock.made() if isinstance(sock, AcceptedSocket) else sock
