"""Serve on one loop of a group: what each member runs."""

import asyncio
import concurrent.futures
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from loopcore.build_info import has_gil
from loopcore.errors import UsageError
from loopcore.group import Member
from loopcore.group.calls import settle
from loopcore.log import own_logger
from loopcore.serving.reports import CANNOT_SERVE, STARTUP_FAILED, report_to_stderr

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

    import uvicorn

    from loopcore.group.server import GroupServer
    from loopcore.serving.on_hypercorn import HypercornServer
    from loopcore.serving.on_uvicorn import UvicornServer

T = TypeVar("T")

Listening: TypeAlias = "socket.socket | TransportSocket"
Listener: TypeAlias = "asyncio.Server | GroupServer"

ENDING: Final = 5.0
"""Seconds after the deadline in which what is open is ended and the lifespan shuts down; then the group cuts."""


class Plan(NamedTuple):
    """What every member serves. Picklable for processes if `load` is, and there are no `sockets` and no `lifespan`."""

    load: Callable[[Member], Any]
    """Returns the application object of a loop."""
    server: str
    """"uvicorn" or "hypercorn"."""
    host: str = ""
    port: int = 0
    uds: str | None = None
    sockets: tuple[socket.socket, ...] = ()
    """Listening sockets to accept from, instead of an address."""
    options: Mapping[str, Any] = {}
    """Options of the server."""
    lifespan: "SharedLifespan | None" = None
    """For an application that all loops share."""
    configure: "Callable[[Any], uvicorn.Config] | None" = None
    """Returns the loaded uvicorn.Config for an application object, instead of `options`."""
    at_limit: Callable[[], None] | None = None
    """Called when uvicorn's `limit_max_requests` is reached: has the group drain."""
    verbose: bool = False
    """Whether to report on standard error when the server is ready, and what the deadline has ended."""


class SharedLifespan:
    """The one lifespan of an application that several loops of a process share: it runs on the first loop."""

    def __init__(self, count: int) -> None:
        # Two futures for each other loop: one that is cancelled while it waits cancels its own, which `settle` ignores.
        self._begun = [concurrent.futures.Future[dict[str, Any]]() for _ in range(count - 1)]
        self._others = [concurrent.futures.Future[None]() for _ in range(count - 1)]

    def begin(self, state: dict[str, Any]) -> None:
        """Report that the startup has ended, with the state that it has filled."""
        for future in self._begun:
            settle(future, state)

    async def begun(self, index: int) -> dict[str, Any]:
        """Wait in the loop `index`, not the first, until the startup has ended; return the state."""
        return await asyncio.wrap_future(self._begun[index - 1])

    def leave(self, index: int) -> None:
        """Report that the loop `index`, not the first, serves nothing any more. Idempotent."""
        settle(self._others[index - 1])

    async def wait_for_others(self) -> None:
        """Wait until the other loops have left, before the lifespan ends."""
        await asyncio.gather(*map(asyncio.wrap_future, self._others))


async def serve_on(plan: Plan, member: Member) -> None:
    """Serve on the loop of `member` until it has drained. Raises SystemExit with a code if it cannot start."""
    if plan.verbose:
        report_to_stderr()
    try:
        app = plan.load(member)
        ended = await (_serve_hypercorn if plan.server == "hypercorn" else _serve_uvicorn)(plan, member, app)
    except UsageError as error:
        own_logger.error("error: %s", error)
        raise SystemExit(CANNOT_SERVE) from error
    finally:
        if plan.lifespan is not None and member.index > 0:
            plan.lifespan.leave(member.index)
    if ended.total():
        own_logger.info("loop %d: %s ended by the deadline", member.index, _listed(ended))


async def _start(server: "UvicornServer | HypercornServer", start: Coroutine[Any, Any, None]) -> None:
    """Start a server. A member that drains is cancelled here: then the startup ends first, and the shutdown follows."""
    starting = asyncio.create_task(start)
    try:
        await asyncio.wait((starting,))
    except asyncio.CancelledError:
        await starting
        await server.stop(0.0)
        raise
    await starting


def _listed(exchanges: Counter[str]) -> str:
    return ", ".join(f"{count} {kind if count > 1 else kind[:-1]}" for kind, count in sorted(exchanges.items()))


def _report_drain(member: Member, seconds: float, exchanges: Counter[str]) -> None:
    """Say what the loop waits for, if anything: it seems to hang otherwise."""
    if exchanges.total():
        own_logger.info(
            "loop %d drains: %s, at most %.0f s; Ctrl-C again ends at once", member.index, _listed(exchanges), seconds
        )


def _announce(plan: Plan, member: Member, sockets: "Sequence[Listening]", *, tls: bool) -> None:
    if member.index or member.generation:
        return
    where = " and ".join(_address(sock, tls=tls) for sock in sockets)
    how = "1 loop" if member.count == 1 else f"{member.count} loops in {member.kind}"
    if member.count > 1 and member.kind == "threads" and has_gil():
        how += " that take turns, because this Python has a GIL (--processes has each work by itself)"
    own_logger.info("serving %s with %s; Ctrl-C drains and ends", where, how)


def _address(sock: "Listening", *, tls: bool) -> str:
    name = sock.getsockname()
    if not isinstance(name, tuple):
        return f"the Unix socket {os.fsdecode(name)}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{'https' if tls else 'http'}://{host}:{name[1]}"


# uvicorn


async def _serve_uvicorn(plan: Plan, member: Member, app: Any) -> Counter[str]:
    from loopcore.serving import on_uvicorn

    is_guest = plan.lifespan is not None and member.index > 0
    options = {**plan.options, "lifespan": "off"} if is_guest else plan.options
    config = on_uvicorn.make_config(app, options) if plan.configure is None else plan.configure(app)
    server = on_uvicorn.UvicornServer(config, plan.at_limit)
    state = None
    if plan.lifespan is not None and is_guest:
        state = await plan.lifespan.begun(member.index)
    try:
        await _start(server, server.start(state))
    except on_uvicorn.StartupFailed as error:
        raise SystemExit(STARTUP_FAILED) from error
    if plan.lifespan is not None and not is_guest:
        plan.lifespan.begin(server.state)
    try:
        listeners = await _listen(plan, member, server)
    except BaseException:
        await server.stop(0.0)
        raise
    _announce(plan, member, [sock for each in listeners for sock in each.sockets], tls=server.config.is_ssl)
    member.ready()
    seconds = await member.draining()
    for each in listeners:
        each.close()
    others = plan.lifespan.wait_for_others if plan.lifespan is not None and not is_guest else None
    seconds = max(0.0, seconds - ENDING)
    _report_drain(member, seconds, server.drain.open())
    return await server.stop(seconds, others)


async def _listen(plan: Plan, member: Member, server: "UvicornServer") -> "list[Listener]":
    factory = server.make_protocol
    how: dict[str, Any] = {"ssl": server.config.ssl, "backlog": server.config.backlog}
    if plan.sockets:
        return [await member.loop.create_server(factory, sock=each.dup(), **how) for each in plan.sockets]
    with _explained(plan):
        if plan.uds is not None:
            return [await _for_all_users(plan.uds, member.create_unix_server(factory, plan.uds, **how))]
        return [await member.create_server(factory, plan.host, plan.port, **how)]


async def _for_all_users(path: str, making: Awaitable[T]) -> T:
    """Let every user connect to a Unix socket, as uvicorn does: the proxy in front runs as another one."""
    made = await making
    os.chmod(path, 0o666)
    return made


@contextmanager
def _explained(plan: Plan) -> Iterator[None]:
    """Raise a UsageError in place of the OSError of an address that cannot be bound."""
    try:
        yield
    except OSError as error:
        where = f"port {plan.port} of {plan.host}" if plan.uds is None else f"the Unix socket {plan.uds}"
        option = "--host and --port" if plan.uds is None else "--uds"
        raise UsageError(
            f"cannot accept at {where}: {error.strerror or error}; choose another with {option}"
        ) from error


# hypercorn


async def _serve_hypercorn(plan: Plan, member: Member, app: Any) -> Counter[str]:
    from loopcore.serving import on_hypercorn

    descriptors, sockets = await _descriptors(plan, member)
    config = on_hypercorn.make_config(plan.options, descriptors)
    server = on_hypercorn.HypercornServer(app, config)
    try:
        await _start(server, server.start())
    except Exception as error:
        own_logger.error("the application did not start: %s", error)
        raise SystemExit(STARTUP_FAILED) from error
    _announce(plan, member, sockets, tls=config.ssl_enabled)
    member.ready()
    seconds = await member.draining()
    seconds = max(0.0, seconds - ENDING)
    _report_drain(member, seconds, server.drain.open())
    return await server.stop(seconds)


async def _descriptors(plan: Plan, member: Member) -> "tuple[list[int], list[Listening]]":
    """Return descriptors of listening sockets for a server that closes them, and the sockets to show."""
    if plan.sockets:
        return [os.dup(each.fileno()) for each in plan.sockets], list(plan.sockets)
    with _explained(plan):
        if plan.uds is not None:
            making = member.create_unix_server(asyncio.Protocol, plan.uds, start_serving=False)
            listener = await _for_all_users(plan.uds, making)
        else:
            listener = await member.create_server(asyncio.Protocol, plan.host, plan.port, start_serving=False)
    sockets = listener.sockets
    return [os.dup(each.fileno()) for each in sockets], list(sockets)
