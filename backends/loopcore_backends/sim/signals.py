"""Signals of a simulated process: the module `signal` and `os.kill`, over a table for each host.

The real handlers stay, so that Ctrl-C ends the simulation itself.
"""

import errno
import math
import os
import signal
from typing import TYPE_CHECKING, Any

from loopcore.sim.errors import NotSimulatedError
from loopcore_backends.sim.descriptors import error, is_simulated
from loopcore_backends.sim.replacing import Replacement

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host
    from loopcore_backends.sim.world import World


class Signals:
    """Handlers and wake-up descriptor of one host's process."""

    def __init__(self) -> None:
        self.handlers: dict[int, Any] = {}
        self.wakeup_fd = -1
        self.alarm: Any = None
        """The event that delivers SIGALRM."""
        self.alarm_again_ns = 0
        """True nanoseconds from one alarm to the next; 0 for a single one."""

    def cancel_alarm(self) -> None:
        """Prevent the alarm that is set. Idempotent."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None


def replacements(world: "World") -> list[Replacement]:
    """Return what stands in for the functions about signals."""

    def handler_of(number: int) -> Any:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        return world.host.signals.handlers.get(number, default)

    def set_handler(number: int, handler: Any) -> Any:
        if not callable(handler) and handler not in (signal.SIG_IGN, signal.SIG_DFL):
            raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
        if number in (signal.SIGKILL, signal.SIGSTOP):
            raise error(errno.EINVAL)
        before = handler_of(number)
        world.host.signals.handlers[int(number)] = handler
        return before

    def set_wakeup_fd(fd: int, *, warn_on_full_buffer: bool = True) -> int:
        before: int = world.host.signals.wakeup_fd
        world.host.signals.wakeup_fd = fd
        return before

    def kill(pid: int, number: int) -> None:
        if pid != world.host.pid:  # the processes of other hosts are on other machines
            raise error(errno.ESRCH)
        deliver(world, world.host, number)

    def raise_signal(number: int) -> None:
        deliver(world, world.host, number)

    def rest_of_alarm() -> tuple[float, float]:
        signals, rate = world.host.signals, world.host.clock_rate
        if signals.alarm is None or signals.alarm.action is None:
            return 0.0, 0.0
        return max((signals.alarm.when - world.now_ns) * rate, 1_000) / 1e9, signals.alarm_again_ns * rate / 1e9

    def set_timer(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        if which != signal.ITIMER_REAL:
            raise NotSimulatedError(
                "signal.setitimer() is simulated for ITIMER_REAL only: processor time does not pass"
            )
        before = rest_of_alarm()
        host = world.host
        signals = host.signals
        signals.cancel_alarm()
        signals.alarm_again_ns = round(interval / host.clock_rate * 1e9)

        def ring() -> None:
            signals.alarm = None
            if signals.alarm_again_ns:
                signals.alarm = world.at_ns(world.now_ns + signals.alarm_again_ns, ring, "alarm")
            deliver(world, host, signal.SIGALRM)

        if seconds:
            signals.alarm = world.at(world.deadline_after(seconds), ring, "alarm")
        return before

    def alarm(seconds: int) -> int:
        return math.ceil(set_timer(signal.ITIMER_REAL, seconds)[0])

    def get_timer(which: int) -> tuple[float, float]:
        return rest_of_alarm() if which == signal.ITIMER_REAL else (0.0, 0.0)

    return [
        *([(signal, "setitimer", set_timer), (signal, "getitimer", get_timer)] if hasattr(signal, "setitimer") else []),
        *([(signal, "alarm", alarm)] if hasattr(signal, "alarm") else []),
        (signal, "signal", set_handler),
        (signal, "getsignal", handler_of),
        (signal, "set_wakeup_fd", set_wakeup_fd),
        (signal, "siginterrupt", lambda number, flag: None),
        (signal, "raise_signal", raise_signal),
        (os, "kill", kill),
        (os, "getpid", lambda: world.host.pid),
    ]


def deliver(world: "World", host: "Host", number: int) -> None:
    """Let the process of `host` get a signal."""
    if not number:
        return
    world.note("signal", signal.Signals(number).name, host=host.name)
    signals = host.signals
    handler = signals.handlers.get(number, signal.SIG_DFL)
    if handler == signal.SIG_IGN:
        return
    if number == signal.SIGKILL or handler == signal.SIG_DFL:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number in (signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT):
            return
        if host is world.main:
            raise SystemExit(128 + number)
        host.crash()
        return
    if is_simulated(signals.wakeup_fd):
        try:
            world.descriptors.get(signals.wakeup_fd).write(bytes([number]))
        except OSError:
            pass  # the channel is full or closed: as the kernel, it says nothing
    before, world.host = world.host, host
    try:
        handler(number, None)
    finally:
        world.host = before
