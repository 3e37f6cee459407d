"""A worker class for gunicorn: uvicorn on loopcore, on one loop or several, with a drain that ends in time.

    gunicorn app:app --worker-class loopcore.gunicorn.LoopcoreWorker --workers 4
    gunicorn app:app --worker-class loopcore.gunicorn.LoopcoreWorker --threads 4

The class derives from uvicorn-worker's, which turns gunicorn's settings into uvicorn's. `--threads` is the number of
loops in each worker: useful where Python runs without the GIL. Each loop has its own application object.

On SIGTERM a worker drains (loopcore.serving.drain) so that it has ended before `--graceful-timeout`, after which
gunicorn would kill it; on SIGQUIT it ends what is open at once.

The workers inherit `LOOPCORE_BACKEND` and `LOOPCORE_PLUGINS`, which apply as in every program. Each makes its loops
after gunicorn has forked it. Importing this module raises ImportError if gunicorn or uvicorn-worker is missing.
"""

import asyncio
import copy
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loopcore.errors import BackendUnavailableError, UsageError
from loopcore.group import LoopGroup, Member
from loopcore.runner import new_event_loop, run
from loopcore.serving.application import load_application
from loopcore.serving.member import ENDING, Plan, serve_on

try:
    from gunicorn.arbiter import Arbiter
    from uvicorn_worker import UvicornWorker
except ImportError as error:
    raise ImportError(
        f"loopcore.gunicorn needs gunicorn and uvicorn-worker ({error}); install them: "
        'python -m pip install "loopcore[gunicorn]"',
        name=error.name,
    ) from error

from loopcore.serving.on_uvicorn import LAST_WAIT

if TYPE_CHECKING:
    import uvicorn

LAST_SECONDS: Final = 3.0
"""How long before gunicorn's `graceful_timeout` a drain ends, at most half of it: the rest is for the shutdown."""


class LoopcoreWorker(UvicornWorker):
    """uvicorn's worker for gunicorn, on loopcore.

    To set more of uvicorn's options, derive a class and extend `CONFIG_KWARGS`, the arguments of `uvicorn.Config`.
    """

    CONFIG_KWARGS: dict[str, Any] = {**UvicornWorker.CONFIG_KWARGS, "loop": "loopcore:new_event_loop"}

    def run(self) -> None:
        """Serve, in the worker process, until gunicorn ends it.

        A wrong `LOOPCORE_BACKEND` or `LOOPCORE_PLUGINS` ends gunicorn, which would otherwise keep replacing the worker.
        """
        try:
            new_event_loop().close()  # an error now is one line
        except (UsageError, BackendUnavailableError) as error:  # another error ends only this worker
            self.log.error("no event loop could be made: %s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        code = self._serve_alone() if self.cfg.threads == 1 else self._serve_group(self.cfg.threads)
        if code:
            sys.exit(code)

    @property
    def _drain_timeout(self) -> float:
        timeout = float(self.cfg.graceful_timeout)
        return timeout - min(LAST_SECONDS, timeout / 2)

    def _plan(self, at_limit: Callable[[], None]) -> Plan:
        return Plan(
            load=self._application,
            server="uvicorn",
            sockets=tuple(self.sockets),
            configure=self._configure,
            at_limit=at_limit,
        )

    def _application(self, member: Member) -> Any:
        """Return the application object of a loop: for the first, that which gunicorn has loaded."""
        if member.index == member.generation == 0:
            return self.wsgi
        app = self.app.load()
        return load_application(self.app.app_uri, copy=True) if app is self.wsgi else app  # else it is from a factory

    def _configure(self, app: Any) -> "uvicorn.Config":
        """Return a copy of the worker's configuration for an application object."""
        config: uvicorn.Config = copy.copy(self.config)
        config.app = app
        config.timeout_graceful_shutdown = LAST_WAIT
        config.load()
        return config

    def _serve_alone(self) -> int:
        """Serve on one loop, in this thread."""

        async def serve() -> None:
            alone: Any = _Alone(self._drain_timeout)
            await serve_on(self._plan(alone.drain), alone)

        try:
            run(serve())
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else 1
        return 0

    def _serve_group(self, loops: int) -> int:
        """Serve on several loops, in threads of this process."""

        def request_drain() -> None:
            group.request_drain()

        group = LoopGroup(
            partial(serve_on, self._plan(request_drain)),
            loops=loops,
            kind="threads",
            drain_timeout=self._drain_timeout + ENDING,
        )
        signal.signal(signal.SIGQUIT, lambda number, frame: group.request_drain(ENDING))
        return group.run(escalate=False)  # gunicorn repeats SIGTERM to surplus workers


class _Alone:
    """The only loop of a worker, in place of a member of a group."""

    index = generation = 0
    count = 1
    kind = "threads"

    def __init__(self, timeout: float) -> None:
        self.loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._begun = asyncio.Event()
        self.loop.add_signal_handler(signal.SIGTERM, self.drain)
        for number in (signal.SIGINT, signal.SIGQUIT):
            self.loop.add_signal_handler(number, self.drain, 0.0)

    def ready(self) -> None:
        """Report nothing: gunicorn does not ask."""

    def drain(self, timeout: float | None = None) -> None:
        """End within the worker's timeout, or within `timeout` seconds."""
        self._timeout = self._timeout if timeout is None else timeout
        self._begun.set()

    async def draining(self) -> float:
        """Wait for `drain`; return the seconds until the cut, as a member's does."""
        await self._begun.wait()
        return self._timeout + ENDING
