"""Shed: an overloaded server refuses new connections, so that the accepted ones are served in time.

A loop with more work than it can do gets later and later for every client, until clients give up on answers that
are still being computed. A client that is refused at once can go elsewhere.
"""

import math
import socket
from collections import Counter
from typing import Any, Final

import loopcore
from loopcore.errors import UsageError
from loopcore.hooks.types import Loop
from loopcore.log import plugin_logger
from loopcore_plugins.policy.delay import DelayProbe
from loopcore_plugins.policy.throttle import CALM, Throttle

logger = plugin_logger.getChild("shed")

PROBES: Final = 5
"""Measurements in `delay` seconds. They are made while connections arrive, and for CALM seconds after."""


class Shed:
    """Resets new connections while the loop's delay is above a bound; if that lasts, limits their rate. For one loop.

    `delay`: the bound, in seconds: the longest that a callback may wait.
    `port`: the one listening port whose connections are refused; None for all listeners, Unix sockets included.
    """

    def __init__(self, *, delay: float = 0.05, port: int | None = None) -> None:
        if not 0.0 < delay < float("inf"):
            raise UsageError(f"delay must be a number of seconds above zero, not {delay}")
        if port is not None and not 1 <= port <= 65535:
            raise UsageError(f"port must be a listening port, 1 to 65535, not {port}")
        self.delay = delay
        self.port = port
        self._throttle = Throttle(delay)
        self._probe: DelayProbe | None = None
        self._loop: Any = None
        self._admitted = 0
        self._refused: Counter[str] = Counter()
        self._episodes = 0
        self._asked_at = 0.0

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Prepare to measure."""
        self._loop = loop
        self._probe = DelayProbe(loop, self.delay / PROBES, self._measured)

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self) -> None:
        """Stop measuring, and admit all connections from now on."""
        if self._probe is not None:
            self._probe.stop()

    @loopcore.hookimpl
    def loopcore_admit_connection(self, sock: socket.socket) -> bool:
        """Provide the policy."""
        if self.port is not None and _listener_of(sock) != str(self.port):
            return True
        assert self._probe is not None
        now = self._asked_at = self._loop.time()
        self._probe.start()
        was_shedding = self._throttle.shedding
        if self._throttle.admit(now, self._probe.overdue(now)):
            self._admitted += 1
            return True
        self._refused[_listener_of(sock)] += 1
        if not was_shedding:
            self._episodes += 1
            logger.warning("new connections are being refused: the loop is more than %g s late", self.delay)
        return False

    def counters(self) -> dict[str, float]:
        """Return the counters. Thread: any.

        `admitted`; `refused` in all, and `refused.<port or path>`; `episodes` in which connections were refused;
        `rate`: connections a second that may pass now, infinite without a limit.
        """
        refused = {f"refused.{listener}": count for listener, count in self._refused.copy().items()}
        rate = self._throttle.rate
        return refused | {
            "admitted": self._admitted,
            "refused": sum(refused.values()),
            "episodes": self._episodes,
            "rate": math.inf if rate is None else rate,
        }

    def _measured(self, now: float, delay: float) -> bool:
        was_shedding = self._throttle.shedding
        self._throttle.measure(now, delay)
        if self._throttle.shedding:
            return True
        if was_shedding:
            logger.info("new connections are accepted again; %d were refused so far", self._refused.total())
        if now - self._asked_at < CALM:
            return True
        self._throttle.forget()
        return False


def _listener_of(sock: socket.socket) -> str:
    """Return port or path of the listener that has accepted `sock`."""
    address = sock.getsockname()
    return str(address[1]) if isinstance(address, tuple) else str(address)
