"""Probing: what one watchdog opens for a platform's probes, a port and a file, and the runs that they cover."""

import os
import threading
from pathlib import Path
from typing import Any

from loopcore.log import plugin_logger
from loopcore_plugins.trace.naming import fill_in
from loopcore_plugins.watchdog import health
from loopcore_plugins.watchdog.delays import DelaySampler
from loopcore_plugins.watchdog.live_file import check_writable, close_file, open_file
from loopcore_plugins.watchdog.watch import Watch
from loopcore_plugins.watchdog.watch_thread import watch_thread

logger = plugin_logger.getChild("watchdog")


class Probing:
    """The probes of a watchdog, open while it has a loop. The parameters are the plugin's options.

    Raises UsageError for impossible ports, and if `file` cannot be written.
    """

    def __init__(
        self, *, port: int | None, host: str, ports: int, file: Path | None, max_stall: float, max_delay: float
    ) -> None:
        self._max_stall = max_stall
        self._max_delay = max_delay
        self._host = host
        self._ports: range | None = None
        if port is not None:
            from loopcore_plugins.metrics.endpoint import port_range

            self._ports = port_range("watchdog", port, ports)
        self._file = None if file is None else Path(file).absolute()
        if self._file is not None:
            check_writable(fill_in(self._file, pid=os.getpid()))
        self._loops: set[int] = set()
        self._lock = threading.RLock()  # reentrant: a garbage collection under it may close a loop
        self._runs: dict[int, health.Run] = {}
        self._endpoint: Any = None
        self._path: Path | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, while they are served."""
        return None if self._endpoint is None else self._endpoint.address

    def open(self, loop: Any) -> None:
        """Open the port and the file, if `loop` is the first; a port that cannot be opened is logged."""
        with self._lock:
            is_first = not self._loops
            self._loops.add(id(loop))
            if is_first and self._ports is not None:
                from loopcore_plugins.metrics.endpoint import serve

                self._endpoint = serve("probes", self._host, self._ports, health.ROUTES, logger)
            if is_first and self._file is not None:
                self._path = fill_in(self._file, pid=os.getpid())
                open_file(self._path)

    def close(self, loop: Any) -> None:
        """Close them, if `loop` is the last. Idempotent."""
        with self._lock:
            self._loops.discard(id(loop))
            if self._loops:
                return
            endpoint, self._endpoint = self._endpoint, None
            path, self._path = self._path, None
        if endpoint is not None:
            from loopcore_plugins.metrics.endpoint import close_endpoint

            close_endpoint(endpoint, health.ROUTES)
        if path is not None:
            close_file(path)

    def forget(self) -> None:
        """In a forked child: forget the copies. The port is closed, and the file is the parent's."""
        self._lock = threading.RLock()
        self._loops.clear()
        self._runs.clear()
        self._endpoint = self._path = None

    def start(self, watch: Watch) -> None:
        """Cover a run of a loop. Thread: the loop's."""
        run = health.Run(watch, DelaySampler(watch.loop), self._max_stall, self._max_delay)
        self._runs[id(watch)] = run
        watch_thread().add(run.delays)
        health.add(run)

    def stop(self, watch: Watch) -> None:
        """Cover a run no longer. Idempotent."""
        run = self._runs.pop(id(watch), None)
        if run is not None:
            run.delays.gone = True
            health.remove(run)
