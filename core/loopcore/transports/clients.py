"""Clients: the open connections of a server, and the waiters for their end.

Connections are held weakly, so that a transport dropped without being closed can still be noticed; it then detaches
itself, so that no dead reference stays. They are kept by identity: a WeakSet is written in Python and costs ten times
as much.

Thread: the loop's own.
"""

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol

    class Client(Protocol):
        """A connection, as its server ends it."""

        def close(self) -> object: ...

        def abort(self) -> object: ...

    class HasClients(Protocol):
        """A server, as its connections use it: ours, or one written for asyncio's transports."""

        def _attach(self, transport: Client, /) -> object: ...

        def _detach(self, transport: object, /) -> object: ...


class Clients:
    """A server's set of connections. Code written for asyncio's server calls `_attach` and `_detach`."""

    __slots__ = ("_references", "_waiters", "_is_closed", "_have_no_delay")

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Client]] = {}
        self._waiters: dict[asyncio.Future[None], None] | None = {}
        """Futures that are resolved once the server is closed and has no connections; None from then on."""
        self._is_closed: bool = False
        self._have_no_delay: bool = False
        """Whether the connection being accepted has inherited TCP_NODELAY from its listening socket."""

    def _attach(self, transport: "Client") -> None:
        self._add(transport)

    def _detach(self, transport: object) -> None:
        self._remove(transport)

    def _add(self, transport: "Client") -> None:
        if self._is_closed:
            raise RuntimeError(f"server {self!r} is closed")
        self._references[id(transport)] = weakref.ref(transport)

    def _remove(self, transport: object) -> None:
        self._references.pop(id(transport), None)
        if self._is_closed:
            self._end_if_empty()

    def _mark_closed(self) -> None:
        """Mark the server as closed: waiters now wait for the remaining connections."""
        self._is_closed = True
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if self._references:
            return
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            loop: Any = waiter.get_loop()
            if loop._is_elsewhere():  # the last connection was dropped by the collector in another thread
                loop.call_soon_threadsafe(resolve, waiter)
            else:
                resolve(waiter)

    def _transports(self) -> "list[Client]":
        references = list(self._references.values())  # one step: a finalizer may remove its transport meanwhile
        return [transport for reference in references if (transport := reference()) is not None]


def resolve(waiter: "asyncio.Future[None]") -> None:
    """Resolve the future, unless it was cancelled in the meantime. Thread: its loop's own."""
    if not waiter.done():
        waiter.set_result(None)


def note_no_delay(server: Clients, have: bool) -> None:
    """Record whether the next connection has TCP_NODELAY already."""
    server._have_no_delay = have


def needs_no_delay(server: object) -> bool:
    """Return whether a transport of `server`, which may be None, has to set TCP_NODELAY itself."""
    if isinstance(server, Clients):
        clients = server
        return not clients._have_no_delay
    return True


def attach(server: "HasClients", transport: "Client") -> None:
    """Register `transport` as a connection of `server`. Raises RuntimeError if the server is closed."""
    if isinstance(server, Clients):
        clients = server
        clients._add(transport)
    else:
        server._attach(transport)


def detach(server: "HasClients", transport: object) -> None:
    """Remove `transport` from the connections of `server`."""
    if isinstance(server, Clients):
        clients = server
        clients._remove(transport)
    else:
        server._detach(transport)
