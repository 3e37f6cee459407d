"""hypercorn on one loop: `hypercorn.asyncio.serve` with a shutdown trigger, on listening sockets of the group.

hypercorn accepts its connections, so they stay on the loop that accepted them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.serving.drain import PATIENCE, Application, Drain, Message, Receive, Send
from loopcore.serving.options import check_value
from loopcore.text import did_you_mean

try:
    import hypercorn.asyncio
    from hypercorn.config import Config
except ImportError as error:
    raise ImportError(
        f"hypercorn is not installed ({error}); install it: python -m pip install hypercorn", name=error.name
    ) from error

REFUSED: Final = {
    "application_path": "is the argument APP",
    "bind": "is given by --host, --port, --uds or --fd",
    "graceful_timeout": "has its own option --drain",
    "max_requests": "would end one loop of the group; use `hypercorn` itself",
    "use_reloader": "is not possible with several loops; use `hypercorn --reload`",
    "worker_class": "is always asyncio's, on loopcore",
    "workers": "has its own option --loops",
}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for options that hypercorn's Config does not have or accept, or that are `REFUSED`."""
    known = [name for name in dir(Config) if not name.startswith("_")]
    for name in options:
        if name in REFUSED:
            raise UsageError(f"hypercorn's option {name!r} {REFUSED[name]}")
        if name not in known:
            raise UsageError(f"hypercorn's Config has no option {name!r}{did_you_mean(name, known)}")
        check_value("hypercorn", name, options[name], getattr(Config, name))
    try:
        make_config(options, ())
    except Exception as error:
        given = ", ".join(options)
        raise UsageError(f"hypercorn's Config raises {type(error).__name__}: {error}; check {given}") from error


def make_config(options: Mapping[str, Any], descriptors: Sequence[int]) -> Config:
    """Return hypercorn's configuration for listening sockets, which it will own. `options` are attributes of Config."""
    config = Config()
    for name, value in {"accesslog": "-", **options}.items():
        setattr(config, name, value)
    config.bind = [f"fd://{fd}" for fd in descriptors]
    return config


class HypercornServer:
    """hypercorn on the running loop."""

    def __init__(self, app: Application, config: Config) -> None:
        self.drain = Drain(app)
        self._config = config
        self._starting = asyncio.Event()
        self._stopping = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve; return when the lifespan's startup has ended. Raises what hypercorn raises if it fails."""
        loop = asyncio.get_running_loop()
        serve: Callable[..., Any] = hypercorn.asyncio.serve
        self._serving = loop.create_task(
            serve(self._call, self._config, shutdown_trigger=self._stopping.wait, mode="asgi")
        )
        started = loop.create_task(self._starting.wait())
        await asyncio.wait((self._serving, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._serving.done():
            await self._serving

    async def _call(self, scope: Message, receive: Receive, send: Send) -> None:
        """Call the application, and note the end of the lifespan's startup, which hypercorn does not report."""
        if scope["type"] != "lifespan":
            await self.drain(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._starting.set()

        try:
            await self.drain(scope, receive, noting)
        except BaseException:
            if not self._stopping.is_set():
                asyncio.get_running_loop().call_soon(self._starting.set)  # hypercorn goes on without a lifespan
            raise

    async def stop(self, timeout: float) -> Counter[str]:
        """Drain, then stop, as `UvicornServer.stop`."""
        assert self._serving is not None
        self.drain.begin()
        self._config.graceful_timeout = timeout + 3 * PATIENCE
        self._stopping.set()  # hypercorn closes its listening sockets and its idle connections
        await self.drain.wait(timeout)
        ended = await self.drain.end()
        await self._serving
        return ended
