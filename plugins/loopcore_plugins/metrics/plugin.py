"""Metrics: the plugin. Its options, and its hooks, none of which is called for a tick, a callback or a task."""

from typing import Any

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.hooks.types import Job, Loop
from loopcore.log import plugin_logger
from loopcore_plugins.metrics.record import LoopRecord
from loopcore_plugins.metrics.registry import enter, leave
from loopcore_plugins.metrics.snapshot import LoopSnapshot

logger = plugin_logger.getChild("metrics")


class Metrics:
    """Measures a loop; for several loops at a time, make one for each.

    `port`: serve the metrics of all loops of the process, and everything else in prometheus_client's default registry,
    over HTTP at `host`; 0 takes any free port. `ports`: how many ports from there on may be tried, one for each worker;
    then `/metrics/all` of any of them has the metrics of all workers.
    If no port can be opened, that is logged, and the loop runs without the endpoint.
    `prometheus`: add the metrics to that registry, for a program that serves it itself.
    `otel`: create OpenTelemetry's instruments.
    `name`: the loop's name in exports; further loops of the process get a number appended.
    `window`: seconds between two samples of callbacks. `full`: measure every callback, at a price.
    Raises UsageError for invalid options, and where an extra is not installed.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        ports: int = 1,
        prometheus: bool = False,
        otel: bool = False,
        name: str = "main",
        window: float = 0.01,
        full: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name.isprintable():
            raise UsageError(f"metrics: name must be printable text, not {name!r}; exports show it")
        if not 0.0 <= window < float("inf"):
            raise UsageError(f"metrics: window must be a number of seconds, 0 or more, not {window!r}")
        self._window = 0.0 if full else window
        self._name = name
        self._host = host
        self._ports: range | None = None
        self._routes: Any = None
        self._endpoint: Any = None
        self._record: LoopRecord | None = None
        self._loop: Any = None
        if port is not None:
            from loopcore_plugins.metrics.endpoint import port_range

            self._ports = port_range("metrics", port, ports)
        if port is not None or prometheus:
            from loopcore_plugins.metrics.prometheus import join_registry

            join_registry()
        if otel:
            from loopcore_plugins.metrics.otel import make_instruments

            make_instruments()

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of the endpoint, while there is one."""
        return None if self._endpoint is None else self._endpoint.address

    def snapshot(self) -> LoopSnapshot:
        """Return the metrics of the loop, or of the last one if that is closed. Thread: any.

        Raises UsageError if there never was one.
        """
        return self._known.snapshot()

    @property
    def _known(self) -> LoopRecord:
        if self._record is None:
            raise UsageError(
                "these metrics have no loop yet: pass them to one, as in loopcore.run(..., plugins=[metrics])"
            )
        return self._record

    # Registration and closing

    @hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Start measuring. Raises UsageError while another loop is measured."""
        if self._loop is not None:
            raise UsageError("metrics measure one loop at a time; make another Metrics() for this one")
        self._record = enter(loop, self._name, self._window)
        self._loop = loop
        if self._ports is not None:
            self._serve(self._ports)

    @hookimpl
    def loopcore_plugin_unregistered(self, loop: Loop) -> None:
        self._leave(loop)

    @hookimpl
    def loopcore_loop_closed(self, loop: Loop) -> None:
        self._leave(loop)

    @hookimpl
    def loopcore_fork_child(self) -> None:
        """Forget the copy; the endpoint has been forgotten already."""
        self._loop = self._endpoint = None

    def _serve(self, ports: range) -> None:
        from loopcore_plugins.metrics.endpoint import serve
        from loopcore_plugins.metrics.prometheus import ROUTES

        self._routes = ROUTES
        if len(ports) > 1:
            from loopcore_plugins.metrics.workers import PATH, page_of_workers

            self._routes = ROUTES | {PATH: page_of_workers(self._host, ports)}
        self._endpoint = serve("metrics", self._host, ports, self._routes, logger)

    def _leave(self, loop: Any) -> None:
        if loop is not self._loop:  # closed, and unregistered later; or a loop that was refused
            return
        self._loop = None
        leave(self._known)
        self._known.close()
        if self._endpoint is not None:
            from loopcore_plugins.metrics.endpoint import close_endpoint

            endpoint, self._endpoint = self._endpoint, None
            close_endpoint(endpoint, self._routes)

    # Recording

    @hookimpl
    def loopcore_exception(self) -> None:
        self._known.exceptions += 1

    @hookimpl
    def loopcore_slow_callback(self) -> None:
        self._known.slow_callbacks += 1

    @hookimpl
    def loopcore_stall_begin(self, stall: Any) -> None:
        self._known.stalls.began(stall)

    @hookimpl
    def loopcore_stall_end(self, stall: Any) -> None:
        self._known.stalls.ended(stall)

    @hookimpl
    def loopcore_transport_opened(self, transport: Any) -> None:
        self._known.transports.opened(transport)

    @hookimpl
    def loopcore_transport_closed(self, transport: Any) -> None:
        self._known.transports.closed(transport)

    @hookimpl
    def loopcore_transport_paused(self, transport: Any, direction: str) -> None:
        self._known.transports.paused(transport, direction)

    @hookimpl
    def loopcore_transport_resumed(self, transport: Any, direction: str) -> None:
        self._known.transports.resumed(transport, direction)

    @hookimpl
    def loopcore_job_submitted(self, job: Job) -> None:
        self._known.jobs.submitted(job)

    @hookimpl
    def loopcore_job_started(self, job: Job) -> None:
        self._known.jobs.started(job)

    @hookimpl
    def loopcore_job_finished(self, job: Job) -> None:
        self._known.jobs.finished(job)
