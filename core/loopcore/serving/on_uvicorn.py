"""uvicorn on one loop: its Config, Server and protocol classes, with connections from a group and a drain.

uvicorn's server starts without sockets: the lifespan, the date header and the shutdown are uvicorn's, the
listening sockets are the group's, and each connection gets `config.http_protocol_class`, as uvicorn would do it.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from loopcore.errors import UsageError
from loopcore.serving.drain import Drain, Message, Receive, Send
from loopcore.serving.options import check_value
from loopcore.text import did_you_mean

try:
    import uvicorn
except ImportError as error:
    raise ImportError(
        f"uvicorn is not installed ({error}); install it: python -m pip install uvicorn", name=error.name
    ) from error

PASSES: Final = 10
"""Ticks between the end of accepting and the closing of idle connections: a request that has arrived is read first."""
SWEEP: Final = 0.1
"""Seconds between two looks for connections that have become idle while draining, or for which nothing has come."""
NEW: Final = 0.5
"""Seconds that a new connection has to send its first request while draining."""
LAST_WAIT: Final = 1
"""Whole seconds that uvicorn's own shutdown waits for what is still open after the deadline."""
FAILED: Final = "the application did not start; the reason is in the log of uvicorn"

REFUSED: Final = {
    "app": "is the argument APP",
    "loop": "is always loopcore's",
    "host": "has its own option --host",
    "port": "has its own option --port",
    "uds": "has its own option --uds",
    "fd": "has its own option --fd",
    "factory": "has its own option --factory",
    "workers": "has its own option --loops",
    "timeout_graceful_shutdown": "has its own option --drain",
    "reload": "is not possible with several loops; use `uvicorn --reload`",
    "limit_max_requests": "would end one loop of the group; use gunicorn",
}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for options that uvicorn.Config does not have or accept, or that are `REFUSED`."""
    known = inspect.signature(uvicorn.Config).parameters
    for name in options:
        if name in REFUSED:
            raise UsageError(f"uvicorn's option {name!r} {REFUSED[name]}")
        if name not in known:
            raise UsageError(f"uvicorn.Config has no option {name!r}{did_you_mean(name, known)}")
        check_value("uvicorn", name, options[name], known[name].default)
    try:  # logging and the environment are those of the calling program
        make_config(lambda scope, receive, send: None, {**options, "log_config": None, "env_file": None})
    except Exception as error:
        given = ", ".join(options) or "the environment"
        raise UsageError(f"uvicorn.Config raises {type(error).__name__}: {error}; check {given}") from error


def make_config(app: Any, options: Mapping[str, Any]) -> uvicorn.Config:
    """Return uvicorn's configuration for an application object, loaded. `options` are arguments of uvicorn.Config."""
    arguments = {"timeout_graceful_shutdown": LAST_WAIT, **options}
    config = uvicorn.Config(_never_a_factory(app), loop="none", **arguments)
    config.load()
    return config


def _never_a_factory(app: Any) -> Any:
    """Return `app`, in a function if it can be called without arguments: uvicorn would take it for a factory."""
    try:
        inspect.signature(app).bind()
    except (TypeError, ValueError):
        return app

    async def call(scope: Message, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return call


class UvicornServer:
    """uvicorn.Server on the running loop, for connections that are accepted elsewhere."""

    def __init__(self, config: uvicorn.Config, at_limit: Callable[[], None] | None = None) -> None:
        self.config = config
        self._at_limit = at_limit
        self.drain = Drain(config.loaded_app)
        config.loaded_app = self.drain
        self._server = uvicorn.Server(config)
        self._loop = asyncio.get_running_loop()
        self._ticking: asyncio.Task[None] | None = None
        self._made: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        """When each connection was made, in the loop's time."""

    @property
    def state(self) -> dict[str, Any]:
        """The state that the lifespan has filled, which each scope has a copy of."""
        state: dict[str, Any] = self._server.lifespan.state
        return state

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.server_state.connections)

    async def start(self, state: Mapping[str, Any] | None = None) -> None:
        """Run the lifespan's startup; with a `state`, take that of another loop instead.

        Raises StartupFailed if the application refuses to start; uvicorn has logged the reason.
        """
        self._server.lifespan = self.config.lifespan_class(self.config)
        try:
            await self._server.startup(sockets=[])
        except SystemExit as error:
            raise StartupFailed(FAILED) from error
        if self._server.lifespan.should_exit:  # before 0.50, uvicorn returns instead of exiting
            raise StartupFailed(FAILED)
        if state is not None:
            self._server.lifespan.state.update(state)
        self._ticking = self._loop.create_task(self._server.main_loop())
        self._ticking.add_done_callback(self._main_loop_ended)

    def _main_loop_ended(self, task: "asyncio.Task[None]") -> None:
        """Report that uvicorn's `limit_max_requests` has been reached, which ends its main loop."""
        if self._at_limit is not None and not self._server.should_exit and not task.cancelled():
            self._at_limit()

    def make_protocol(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn does
            config=self.config, server_state=self._server.server_state, app_state=self.state
        )
        self._made[protocol] = self._loop.time()
        return protocol

    async def stop(self, timeout: float, others: Callable[[], Awaitable[None]] | None = None) -> Counter[str]:
        """Drain, then stop: at most `timeout` seconds, what `Drain.end` and uvicorn take, and the lifespan's shutdown.

        Call it when nothing is accepted any more. `others()` is awaited before the lifespan's shutdown.
        Returns how many exchanges the deadline has ended.
        """
        self.drain.begin()
        await self._wait_for_connections(timeout)
        ended = await self.drain.end()
        self._server.should_exit = True
        if self._ticking is not None:
            await self._ticking
        if others is not None:
            await others()
        await self._server.shutdown(sockets=[])
        return ended

    async def _wait_for_connections(self, timeout: float) -> None:
        """Close connections as they become idle. WebSockets and responses continue; return when none is left."""
        loop = self._loop
        deadline = loop.time() + timeout
        for _ in range(PASSES):
            await asyncio.sleep(0)
        known = set(self._server.server_state.connections)
        while self._server.server_state.connections and loop.time() < deadline:
            for connection in known & self._server.server_state.connections:
                if self._made.get(connection, 0.0) > loop.time() - NEW:
                    continue
                if self.config.ws_protocol_class is None or not isinstance(connection, self.config.ws_protocol_class):
                    connection.shutdown()
            known = set(self._server.server_state.connections)
            await asyncio.sleep(min(SWEEP, max(0.0, deadline - loop.time())))


class StartupFailed(Exception):
    """The lifespan of the application ended the startup."""
