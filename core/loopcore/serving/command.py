"""Serve an ASGI application on a group of loops: the function behind `loopcore serve`."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Literal

from loopcore.errors import UsageError
from loopcore.group import LoopGroup
from loopcore.group.group import OnFailure, processors
from loopcore.group.part import Kind
from loopcore.serving.application import application_of, find_application, load_application
from loopcore.serving.member import ENDING, Plan, SharedLifespan, serve_on
from loopcore.serving.reports import report_to_stderr

SERVERS: Final = ("uvicorn", "hypercorn")


def serve(
    app: str,
    *,
    server: str = "uvicorn",
    loops: int | None = None,
    kind: Kind | Literal["auto"] = "auto",
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: str | None = None,
    fd: int | None = None,
    drain: float = 30.0,
    factory: bool = False,
    shared_app: bool = False,
    options: Mapping[str, Any] | None = None,
) -> int:
    """Serve the ASGI application `app`, MODULE:ATTRIBUTE, until SIGINT or SIGTERM; return the exit code.

    `loops` and `kind` are LoopGroup's: by default a loop on each processor, in processes unless this Python runs
    without the GIL. The address is `host` and `port`, or a Unix socket `uds`, or a listening socket `fd`.
    `factory`: `app` names a function that returns the application. Each loop has its own application object and
    lifespan, unless `shared_app`, which needs threads. `options` are arguments of uvicorn.Config or attributes of
    hypercorn's Config.

    On the signal the server drains for `drain` seconds (loopcore.serving.drain), and ends at most 5 seconds later.
    The exit code is 0 then, 3 if the application did not start, otherwise that of `LoopGroup.run`.
    Raises UsageError for arguments that cannot work, and if the server is not installed. Thread: the main thread.
    """
    if server not in SERVERS:
        raise UsageError(f"server {server!r} is not known; use one of {', '.join(map(repr, SERVERS))}")
    if not 0 <= port <= 65535:
        raise UsageError(f"port {port} is out of range: 0 to 65535")
    if not 0.0 <= drain < float("inf"):
        raise UsageError(f"drain={drain} is not a number of seconds; use 0 to end what is open at once")
    if uds is not None and fd is not None:
        raise UsageError("a Unix socket and a descriptor were given; the server accepts from one of them")
    _check_server(server, options or {})
    if loops == 1 and kind == "auto":
        kind = "threads"  # a process for one loop would gain nothing
    with ExitStack() as closing:
        sockets = () if fd is None else (closing.enter_context(_listening(fd)),)
        load = partial(application_of, app, factory, None)
        plan = Plan(load, server, host, port, uds, sockets, dict(options or {}), verbose=True)
        kind = _group(plan, loops, kind, drain).kind  # wrong arguments are reported before the application is loaded
        if fd is not None and kind == "processes":
            raise UsageError("a descriptor is served by this process only: use --fd with --threads or --loops 1")
        if shared_app:
            if kind == "processes":
                raise UsageError("processes share no application object; use --shared-app with --threads")
            if server != "uvicorn":
                raise UsageError(f"one lifespan for several loops is not possible with {server}; use --server uvicorn")
            shared = load_application(app, factory=factory)
            plan = plan._replace(load=lambda member: shared, lifespan=SharedLifespan(loops or processors()))
        elif kind == "threads":
            first = load_application(app, factory=factory)  # an error now is one line
            plan = plan._replace(load=partial(application_of, app, factory, first))
        else:
            find_application(app)
        report_to_stderr()
        return _group(plan, loops, kind, drain, on_failure="stop" if shared_app else "restart").run()


def _group(
    plan: Plan, loops: int | None, kind: Kind | Literal["auto"], drain: float, on_failure: OnFailure = "restart"
) -> LoopGroup:
    return LoopGroup(
        partial(serve_on, plan), loops=loops, kind=kind, drain_timeout=drain + ENDING, on_failure=on_failure
    )


def _check_server(server: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError if the server is not installed, or does not have these options."""
    try:
        if server == "uvicorn":
            from loopcore.serving.on_uvicorn import check_options
        else:
            from loopcore.serving.on_hypercorn import check_options
    except ImportError as error:
        raise UsageError(str(error)) from error
    check_options(options)


def _listening(fd: int) -> socket.socket:
    try:
        inherited = socket.socket(fileno=fd)
    except OSError as error:
        raise UsageError(f"descriptor {fd} is not a socket: {error.strerror}") from None
    try:
        sock = inherited.dup()
    finally:
        inherited.detach()
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        raise UsageError(f"descriptor {fd} is a socket that does not listen; the program that opens it calls listen()")
    return sock
