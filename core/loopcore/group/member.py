"""A member: what `main` sees of its group."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, overload

from loopcore.endpoints.tls import refuse_bool
from loopcore.errors import UsageError
from loopcore.group.part import Kind
from loopcore.group.server import GroupServer, ProtocolFactory
from loopcore.streams import StreamReader, StreamReaderProtocol
from loopcore.streams.opening import ClientConnected

if TYPE_CHECKING:
    from ssl import SSLContext

    from loopcore.group.life import Life

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

current = threading.local()
"""Its `member` is the member whose loop runs in the thread, if any."""


def current_member() -> "Member":
    """Return the member whose loop runs in this thread. Raises UsageError in any other thread."""
    member: Member | None = getattr(current, "member", None)
    if member is None:
        raise UsageError("no member of a group runs in this thread; call this on a member's loop, not in its executor")
    return member


class Member:
    """One loop of a group, as its `main` sees it. Thread: the member's loop, unless a method says otherwise."""

    def __init__(self, life: "Life") -> None:
        self._life = life

    def __repr__(self) -> str:
        return f"<Member {self.index} of {self.count}, {self.kind}>"

    @property
    def index(self) -> int:
        """The member's place in the group, from 0."""
        return self._life.part.index

    @property
    def count(self) -> int:
        """How many members the group has."""
        return self._life.part.count

    @property
    def kind(self) -> Kind:
        """ "threads" or "processes"."""
        return self._life.part.kind

    @property
    def generation(self) -> int:
        """How often the member in this place has been replaced: 0 for the first."""
        return self._life.part.generation

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The member's loop."""
        return self._life.loop

    def ready(self) -> None:
        """Report that the member has set up what it needs; the first `draining` does so, too.

        `LoopGroup.start` and `restart` wait for it. A member that fails before that is not restarted.
        """
        self._life.set_ready()

    @property
    def is_draining(self) -> bool:
        """Whether the member is to finish what it has begun, and to end."""
        return self._life.is_draining

    async def draining(self) -> float:
        """Wait until the member is to end, and return the seconds that it has left.

        By then its servers are closed. It has this long to finish the rest and to return from `main`; connections that
        are open then continue for what remains of it. After that `main` is cancelled and connections are aborted.
        """
        return await self._life.wait_for_drain()

    @property
    def time_left(self) -> float:
        """Seconds until `main` is cancelled, at least 0.0; infinite while the member does not drain."""
        return self._life.time_left()

    @overload
    async def run_on(self, index: int, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T: ...

    @overload
    async def run_on(self, index: int, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T: ...

    async def run_on(self, index: int, function: Callable[[Unpack[Ts]], Any], *args: *Ts) -> Any:
        """Call `function(*args)` on the loop of member `index`, await the result if it can be awaited, and return it.

        Between processes, the function, its arguments and the result are pickled. Raises what the function raises, and
        MemberFailedError if the member ends first. Cancelling cancels the call.
        """
        return await asyncio.wrap_future(self._life.link.run_on(index, function, args))

    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        host: Any = None,
        port: int | None = None,
        *,
        family: int = 0,
        flags: int | None = None,
        backlog: int = 100,
        ssl: "SSLContext | None" = None,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
        hand_over: bool = True,
        sock_index: int | None = None,
    ) -> GroupServer:
        """Serve on `host` and `port`, together with the members that call this with the same arguments.

        The arguments are asyncio's; instead of `sock`, which would be another socket in each member, `sock_index` is
        the place of a bound socket in the group's `sockets`. With port 0 all members get the same port. Each member
        accepts; with `hand_over` a connection goes to the member with the least to do. Without it, it stays where it
        was accepted, which the kernel chooses. `reuse_port` lets other programs bind the same port.
        Raises OSError if the address cannot be bound.
        """
        arguments = {
            "host": tuple(host) if isinstance(host, list) else host,
            "port": port,
            "family": int(family),
            "reuse_address": reuse_address,
            "reuse_port": bool(reuse_port),
        }
        if flags is not None:
            arguments["flags"] = int(flags)
        refuse_bool(ssl)
        if sock_index is not None:
            if host is not None or port is not None:
                raise ValueError("host/port and sock_index can not be specified at the same time")
            if not 0 <= sock_index < self._life.part.sockets:
                raise UsageError(
                    f"sock_index={sock_index}: the group has {self._life.part.sockets} sockets; "
                    "pass LoopGroup(sockets=...)"
                )
            arguments = {"sock_index": sock_index}
        elif host is None and port is None:
            raise ValueError("Neither host/port nor sock_index were specified")
        return await self._life.create_server(
            protocol_factory,
            "tcp" if sock_index is None else "given",
            arguments,
            backlog=backlog,
            ssl=ssl,
            handshake_timeout=ssl_handshake_timeout,
            shutdown_timeout=ssl_shutdown_timeout,
            start_serving=start_serving,
            hand_over=hand_over,
        )

    async def create_unix_server(
        self,
        protocol_factory: ProtocolFactory,
        path: str | os.PathLike[str],
        *,
        backlog: int = 100,
        ssl: "SSLContext | None" = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
        hand_over: bool = True,
    ) -> GroupServer:
        """Serve on a Unix socket at `path`, which all members accept from. The group removes it when it ends."""
        refuse_bool(ssl)
        return await self._life.create_server(
            protocol_factory,
            "unix",
            {"path": os.fspath(path)},
            backlog=backlog,
            ssl=ssl,
            handshake_timeout=ssl_handshake_timeout,
            shutdown_timeout=ssl_shutdown_timeout,
            start_serving=start_serving,
            hand_over=hand_over,
        )

    async def start_server(
        self,
        client_connected_cb: ClientConnected,
        host: Any = None,
        port: int | None = None,
        *,
        limit: int = 2**16,
        **options: Any,
    ) -> GroupServer:
        """As `create_server`, with streams: calls `client_connected_cb(reader, writer)` for each connection."""

        def factory() -> asyncio.BaseProtocol:
            reader = StreamReader(limit=limit, loop=self.loop)
            return StreamReaderProtocol(reader, client_connected_cb, loop=self.loop)

        return await self.create_server(factory, host, port, **options)
