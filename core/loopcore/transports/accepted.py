"""AcceptedSocket: a connection's descriptor, and the `socket.socket` of it for whoever asks.

A transport needs of its socket a number and one to close it; few programs ask for more. To make the object takes longer
than accept(2), and a system call (getsockname, by which the constructor makes sure of the family). So it is made when
something is wanted of it that is not here, and is the one owner of the descriptor from then on.

Thread: the loop's own.
"""

import socket
import warnings
from typing import Any


class AcceptedSocket:
    """An open socket that has not been made. `kind` is what the constructor takes: family, type and protocol."""

    __slots__ = ("_fd", "_kind", "_made", "_is_open")

    def __init__(self, fd: int, kind: tuple[int, int, int]) -> None:
        self._fd: int = fd
        family, type_, protocol = kind
        self._kind: tuple[int, int, int] = (family, type_, protocol)
        self._made: socket.socket | None = None
        # Last: what is not all there, or was never initialised, owns no descriptor, and surely not number 0.
        self._is_open: bool = True
        """Whether the descriptor is open, and ours: not that of the socket that was made."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd={self.fileno()}>"

    def __del__(self) -> None:
        if self._is_open:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)
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
        """Return the socket; always the same, and a closed one where the descriptor is closed."""
        if self._made is None:
            if self._is_open:
                try:
                    self._made = socket.socket(*self._kind, fileno=self._fd)
                except OSError:
                    return closed_socket(*self._kind)  # somebody else has closed the descriptor; `close` will say so
                self._is_open = False
            else:
                self._made = closed_socket(*self._kind)
        return self._made


def closed_socket(family: int, kind: int, proto: int) -> socket.socket:
    """Return a closed socket. If no descriptor can be had for a moment it does not know its family."""
    try:
        sock = socket.socket(family, kind, proto)
    except OSError:
        sock = socket.socket.__new__(socket.socket)
        sock._io_refs = 0  # type: ignore[attr-defined]  # what `__init__` sets, and `close` asks for
    sock.close()
    return sock


def number_of(sock: Any) -> int:
    """Return the descriptor of `sock`, an AcceptedSocket or any other; -1 once it is closed."""
    if type(sock) is AcceptedSocket:
        accepted = sock
        return accepted.fileno()
    number: int = sock.fileno()
    return number


def close_socket(sock: Any) -> None:
    """Close `sock`, an AcceptedSocket or any other. Raises OSError if somebody else has closed its descriptor."""
    if type(sock) is AcceptedSocket:
        accepted = sock
        accepted.close()
    else:
        sock.close()


def real_socket(sock: Any) -> Any:
    """Return the socket itself, if `sock` is one that has not been made; else `sock`."""
    return sock.made() if isinstance(sock, AcceptedSocket) else sock
