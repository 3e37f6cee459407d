"""One member's part of a server: its listening sockets, and the connections that it serves.

The group owns the listening sockets (`loopcore.group.listeners`) and a member works with copies, so closing them here
resets no connection that waits to be accepted. A connection is accepted, and then either given to the member with the
least to do or served here with `loop.connect_accepted_socket`. Every loop has that method, which is why a loop's own
server is not used: it would serve what it accepts.

An accepted socket counts as open until the transport closes it. Transports own their sockets and close them once,
whatever the loop and the protocol, so nothing has to be wrapped around a protocol.

Thread: the member's loop.
"""

import asyncio
import os
import socket
import struct
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from loopcore.group.load import Load
from loopcore.loop import EventLoop
from loopcore.transports.acceptor import OF_ONE_CONNECTION, OUT_OF_RESOURCES, RETRY_DELAY

if TYPE_CHECKING:
    from ssl import SSLContext

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Accepted(socket.socket):
    """The socket of an accepted connection, which says when it is closed."""

    __slots__ = ("is_taken", "on_close", "transport")

    def __init__(self, sock: socket.socket, on_close: Callable[["Accepted"], None]) -> None:
        self.on_close: Callable[[Accepted], None] | None = on_close
        self.transport: asyncio.Transport | None = None
        self.is_taken = False  # by connect_accepted_socket, which closes it if it is cancelled
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())

    def close(self) -> None:
        """Close the descriptor, and report it the first time."""
        super().close()
        self._report()

    def detach(self) -> int:
        """Give the descriptor up, which ends the connection as far as the server is concerned."""
        fd = super().detach()
        self._report()
        return fd

    def _report(self) -> None:
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close(self)


class GroupServer(asyncio.AbstractServer):
    """What `Member.create_server` returns: asyncio's Server, of which every member has a part.

    `close` closes this member's part only; the other members continue. It also ends when the member drains.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sequence[socket.socket],
        protocol_factory: ProtocolFactory,
        *,
        number: int,
        load: Load,
        give: Callable[[int, int, socket.socket], bool] | None,
        backlog: int,
        ssl: "SSLContext | None",
        timeouts: dict[str, float],
        released: Callable[["GroupServer"], None],
    ) -> None:
        self._loop = loop
        self._sockets = list(sockets)
        self._protocol_factory = protocol_factory
        self.number = number
        self._load = load
        self._give = give
        self._backlog = max(1, backlog)
        self._ssl = ssl
        self._timeouts = timeouts
        self._released = released
        self._context = copy_context()
        self._is_serving = False
        self._is_closed = False
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._open: set[Accepted] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} sockets={self.sockets!r} connections={len(self._open)}>"

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the member's loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Return whether this member accepts connections."""
        return self._is_serving

    @property
    def sockets(self) -> tuple[TransportSocket, ...]:
        """This member's listening sockets, protected from being closed; none once the server is closed."""
        return tuple(TransportSocket(sock) for sock in self._sockets)

    @property
    def connections(self) -> int:
        """How many connections this member serves."""
        return len(self._open)

    # Serving

    async def start_serving(self) -> None:
        """Listen and accept. Idempotent. Raises RuntimeError if the server is closed."""
        self._start_serving()
        await asyncio.sleep(0)

    def _start_serving(self) -> None:
        if self._is_serving:
            return
        if self._is_closed:
            raise RuntimeError(f"server {self!r} is closed")
        self._is_serving = True
        if self._give is not None:
            self._load.offer(self.number, True)
        for sock in self._sockets:
            sock.listen(self._backlog)
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    async def serve_forever(self) -> None:
        """Serve until cancelled or closed, then close; raises CancelledError either way, RuntimeError if used twice."""
        if self._forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        self._start_serving()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        except asyncio.CancelledError:
            self.close()
            self.close_clients()
            await self.wait_closed()
            raise
        finally:
            self._forever = None

    def _accept(self, listener: socket.socket) -> None:
        """Take what is waiting, at most `backlog` connections, so that other callbacks get their turn."""
        for _ in range(self._backlog):
            if self._is_closed or not self._accept_one(listener):
                return

    def _accept_one(self, listener: socket.socket) -> bool:
        """Accept a connection and find it a member; return False if none was waiting."""
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except (ConnectionAbortedError, ConnectionResetError):
            return True
        except OSError as error:
            if error.errno in OF_ONE_CONNECTION:
                return True
            self._pause(listener, error)
            return False
        self._load.accept()
        if self._give is not None:
            target = self._load.choose(self.number)
            if target is not None and self._give(target, self.number, sock):
                self._load.give(target)
                return True
        self.take(sock)
        return True

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Stop accepting for a second: the socket stays readable, and the loop would spin."""
        if error.errno not in OUT_OF_RESOURCES:
            message = "socket.accept() failed"
        else:
            message = "socket.accept() out of system resource"
        self._loop.call_exception_handler({"message": message, "exception": error, "socket": listener})
        if listener.fileno() < 0 or self._is_closed:
            return
        self._loop.remove_reader(listener.fileno())
        self._retries[listener] = self._loop.call_later(RETRY_DELAY, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        self._retries.pop(listener, None)
        if self._is_serving:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def take(self, sock: socket.socket) -> None:
        """Serve an accepted connection here. The server owns `sock` from now on, also if it is closed meanwhile."""
        sock.setblocking(False)
        accepted = Accepted(sock, self._forget)
        self._open.add(accepted)
        self._load.opened()
        if not self._is_admitted(accepted):
            reset(accepted)
            return
        task = self._loop.create_task(self._connect(accepted), context=self._context.copy())
        self._connecting.add(task)
        task.add_done_callback(partial(self._note_connected, accepted))

    def _note_connected(self, accepted: Accepted, task: "asyncio.Task[None]") -> None:
        self._connecting.discard(task)
        if task.cancelled() and not accepted.is_taken:
            accepted.close()

    def _is_admitted(self, accepted: Accepted) -> bool:
        """Ask the policy of connections of a loopcore loop, and count as its own servers do."""
        loop = self._loop
        if not isinstance(loop, EventLoop):
            return True
        admitted = loop.probes.ask("loopcore_admit_connection", loop, self, accepted) is not False
        if admitted:
            loop._stats.connections_accepted += 1
        else:
            loop._stats.connections_refused += 1
        return admitted

    async def _connect(self, accepted: Accepted) -> None:
        accepted.is_taken = True
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                self._protocol_factory, accepted, ssl=self._ssl, **self._timeouts
            )
            accepted.transport = transport if accepted in self._open else None
        except (SystemExit, KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            accepted.close()
            if self._loop.get_debug():
                message = "Error on transport creation for incoming connection"
                self._loop.call_exception_handler({"message": message, "exception": error})

    def _forget(self, accepted: Accepted) -> None:
        self._open.discard(accepted)
        accepted.transport = None
        self._load.closed()
        if not self._open:
            self._wake()

    # Closing

    def withdraw(self) -> None:
        """Keep from now on what is accepted here, and ask the others to give nothing more."""
        if self._give is not None:
            self._give = None
            self._load.offer(self.number, False)

    def accept_the_rest(self) -> None:
        """Serve what waits in the queues of the listening sockets, before they are closed."""
        for listener in self._sockets:
            for _ in range(self._backlog + 1):  # as many as a queue holds; under load there would be no end
                if not self._is_serving or not self._accept_one(listener):
                    break

    def close(self) -> None:
        """Stop accepting, at once. Connections stay open. Idempotent.

        The group closes its copies of the listening sockets a moment later: clients that connect in between are reset.
        """
        if not self._is_closed:
            self.leave()
            self._released(self)

    def leave(self) -> None:
        """Stop accepting, and leave the listening sockets to the group: another member may take this one's place."""
        if self._is_closed:
            return
        self.withdraw()
        self._is_closed, self._is_serving = True, False
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()
        if not self._open:
            self._wake()

    def close_clients(self) -> None:
        """Close every connection of this member once its written bytes have been sent; in a TLS handshake, at once."""
        for task in list(self._connecting):
            task.cancel()
        for accepted in list(self._open):
            if accepted.transport is not None:
                accepted.transport.close()

    def abort_clients(self) -> None:
        """Close every connection of this member at once, those in their TLS handshake as well."""
        for task in list(self._connecting):
            task.cancel()
        for accepted in list(self._open):
            transport = accepted.transport
            if transport is not None:
                transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the server is closed and its connections here have ended."""
        while not self._is_closed or self._open:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def reset(sock: socket.socket) -> None:
    """Close a connection with a reset, so that its client learns at once that it gets no answer."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:  # macOS refuses it once the client has closed
            pass
    sock.close()
