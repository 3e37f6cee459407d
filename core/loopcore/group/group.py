"""LoopGroup: a program that runs on several loops."""

import asyncio
import atexit
import concurrent.futures
import inspect
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Literal, TypeAlias, TypeVar, TypeVarTuple, Unpack, get_args, overload

from loopcore.build_info import has_gil
from loopcore.errors import UsageError
from loopcore.group.figures import GroupStats, MemberStatus
from loopcore.group.member import Member, current
from loopcore.group.part import Kind, Main, Part
from loopcore.group.processes import GRACE, check_picklable
from loopcore.group.supervisor import READY_TIMEOUT, Supervisor, not_ready
from loopcore.runner import LoopFactory
from loopcore.selection.discovery import find_plugins

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OnFailure: TypeAlias = Literal["restart", "stop"]

KINDS: Final = ("auto", *get_args(Kind))
ON_FAILURE: Final = get_args(OnFailure)

End: TypeAlias = Callable[[Supervisor], Coroutine[Any, Any, None]]
"""How a group ends: `drain` or `stop` of its supervisor."""


class LoopGroup:
    """Runs `main` on several loops at once, each with another Member. A group runs once.

    `loops` is their number, by default that of the processors that this process may use. `kind` is "threads" (of this
    process; only free-threaded Python runs them at the same time), "processes" (each imports `main`), or "auto":
    threads if this Python runs without the GIL, else processes. `loop_factory` makes the loops, by default
    `loopcore.new_event_loop`; `debug` is asyncio's. `drain_timeout` is how many seconds members have to end.
    `on_failure` is "restart" or "stop": what happens when the `main` of a member that was ready raises, or its process
    dies. A member that fails before it is ready ends the group. `sockets` are bound sockets that all members may serve
    (`Member.create_server(sock_index=...)`), for a program that inherits them; the caller closes them.

    Raises UsageError for arguments that cannot work. Thread: any, but not a member's.
    """

    def __init__(
        self,
        main: Main,
        *,
        loops: int | None = None,
        kind: Kind | Literal["auto"] = "auto",
        loop_factory: LoopFactory | None = None,
        debug: bool | None = None,
        drain_timeout: float = 30.0,
        on_failure: OnFailure = "restart",
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        if kind not in KINDS:
            raise UsageError(f"kind={kind!r} is not known; use one of {', '.join(map(repr, KINDS))}")
        if on_failure not in ON_FAILURE:
            raise UsageError(f"on_failure={on_failure!r} is not known; use one of {', '.join(map(repr, ON_FAILURE))}")
        if loops is not None and loops < 1:
            raise UsageError(f"loops={loops} is too few; use 1 or more, or leave it out for one on each processor")
        if asyncio.iscoroutine(main) or not callable(main):
            raise UsageError("main must be a coroutine function that takes a Member: pass it without calling it")
        if kind == "auto":
            kind = "processes" if has_gil() else "threads"
        if kind == "processes" and os.name != "posix":
            raise UsageError(
                'kind="processes" needs a system that passes descriptors between processes; use kind="threads"'
            )
        self._part = Part(main, loop_factory, debug, kind, loops or processors(), 0, 0, drain_timeout, len(sockets))
        self._on_failure = on_failure
        self._sockets = tuple(sockets)
        self._supervisor: Supervisor | None = None
        self._beginning = threading.Lock()

    def __repr__(self) -> str:
        return f"<LoopGroup of {self._part.count} {self._part.kind}, {self.state}>"

    @property
    def kind(self) -> Kind:
        """ "threads" or "processes"."""
        return self._part.kind

    @property
    def state(self) -> str:
        """ "new", "running", "draining" or "ended"."""
        if self._supervisor is None:
            return "new"
        if self._supervisor.over.is_set():
            return "ended"
        return "draining" if self._supervisor.is_draining else "running"

    @property
    def members(self) -> tuple[MemberStatus, ...]:
        """The state of each member at this moment."""
        return () if self._supervisor is None else self._supervisor.members()

    # Starting

    def start(self, timeout: float | None = READY_TIMEOUT) -> None:
        """Start all members, and wait until each is ready.

        A member is ready when its `main` awaits `draining`, calls `ready`, or has returned. Raises MemberFailedError if
        one fails before that, TimeoutError if it takes more than `timeout` seconds (the group has ended then), and
        UsageError if the group was started before.
        """
        starting = self._begin(until_ready=True)
        try:
            starting.result(timeout)
        except TimeoutError:
            self.stop()
            raise TimeoutError(f"a member {not_ready(timeout)}") from None
        except BaseException:
            self.stop()
            raise

    def _begin(self, until_ready: bool) -> "concurrent.futures.Future[None]":
        self._refuse_member_threads("started")
        if self._part.kind == "processes":
            check_picklable(self._part)
        if self._part.loop_factory is None:
            find_plugins()  # an error now is one, and not one of each member
        with self._beginning:
            if self._supervisor is not None:
                raise UsageError("the group was started before; make another LoopGroup")
            supervisor = Supervisor(self._part, self._on_failure, self._sockets)
            start = supervisor.start(until_ready)
            # Posted before anybody can ask the group to drain: a signal that arrives from here on finds its members.
            starting = supervisor.call(start)
            self._supervisor = supervisor
            try:
                supervisor.begin()
            except Exception:
                self._supervisor = None
                start.close()
                raise
        atexit.register(self.stop)
        return starting

    def __enter__(self) -> "LoopGroup":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.drain()
        else:
            self.stop()

    def run(self, *, escalate: bool = True) -> int:
        """Start the group, wait until it has ended, and return the exit code for `sys.exit`.

        In the main thread, SIGINT or SIGTERM begins to drain, and a second one stops at once; without `escalate`, it is
        ignored, for a program under a supervisor that repeats its signal. The code is 0 if every
        member has ended in time, 128 + the signal's number after a second signal, and otherwise that of the first
        member that failed: 1 for an exception, its own for SystemExit, 128 + the signal's number for a process that a
        signal has ended. A member that had to be killed, or a thread that had to be left behind, makes it 1.
        """
        signals = Signals(self, escalate)
        with signals:
            starting = self._begin(until_ready=False)
            if signals.forced:  # before there was a group
                self._request_stop()
            elif signals.count:
                self.request_drain()
            self.wait()
        self._close()
        starting.result()
        return signals.forced or self.exit_code

    # Ending

    def drain(self, timeout: float | None = None) -> None:
        """Have every member finish and end, and wait for it; after `timeout` seconds they are cancelled.

        None means the group's `drain_timeout`. Nothing happens if the group has ended.
        """
        seconds = self._part.drain_timeout if timeout is None else timeout
        self._finish("drained", lambda supervisor: supervisor.drain(seconds))

    def stop(self, timeout: float = GRACE) -> None:
        """Cancel every member and wait for it; after `timeout` seconds, kill processes and leave threads behind."""
        self._finish("stopped", lambda supervisor: supervisor.stop(timeout))

    def _finish(self, what: str, end: End) -> None:
        self._refuse_member_threads(what)
        supervisor = self._supervisor
        # A forked child has no threads of the group, nor members.
        if supervisor is None or supervisor.pid != os.getpid():
            return
        ending = _begin_to(supervisor, end)
        wait_for(supervisor.over)
        self._close()
        if ending is not None:
            ending.result()

    def _close(self) -> None:
        assert self._supervisor is not None
        self._supervisor.close()
        atexit.unregister(self.stop)

    def request_drain(self, timeout: float | None = None) -> None:
        """Begin to drain, and return at once. Thread: any, also a member's, and signal handlers."""
        seconds = self._part.drain_timeout if timeout is None else timeout
        if self._supervisor is not None:
            _begin_to(self._supervisor, lambda supervisor: supervisor.drain(seconds))

    def _request_stop(self) -> None:
        if self._supervisor is not None:
            _begin_to(self._supervisor, lambda supervisor: supervisor.stop(GRACE))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the group has ended; return False if `timeout` seconds pass first."""
        return self._supervisor is not None and wait_for(self._supervisor.over, timeout)

    @property
    def exit_code(self) -> int:
        """The exit code of the members: 0 until one fails, and final once the group has ended.

        `run` returns it, unless a second signal has stopped the group.
        """
        return 0 if self._supervisor is None else self._supervisor.exit_code

    # Members

    def restart(self, index: int, timeout: float | None = None, *, ready_timeout: float | None = READY_TIMEOUT) -> None:
        """Replace a member without losing a connection: start its successor, then drain it.

        Returns when the old member has ended, at most `timeout` seconds (None: `drain_timeout`) and the grace after the
        new one is ready. Raises MemberFailedError if the new one fails before it takes over, TimeoutError if it is not
        ready in `ready_timeout` seconds; the old one continues then.
        """
        self._refuse_member_threads("restarted")
        supervisor = self._running("restart")
        seconds = self._part.drain_timeout if timeout is None else timeout
        supervisor.call(supervisor.restart(index, seconds, ready_timeout)).result()

    @overload
    def run_on(
        self, member: int | Member | MemberStatus, function: Callable[[Unpack[Ts]], Awaitable[T]], /, *args: *Ts
    ) -> "concurrent.futures.Future[T]": ...

    @overload
    def run_on(
        self, member: int | Member | MemberStatus, function: Callable[[Unpack[Ts]], T], /, *args: *Ts
    ) -> "concurrent.futures.Future[T]": ...

    @overload
    def run_on(
        self, member: int | Member | MemberStatus, function: Awaitable[T], /
    ) -> "concurrent.futures.Future[T]": ...

    def run_on(
        self,
        member: int | Member | MemberStatus,
        function: Callable[[Unpack[Ts]], Any] | Awaitable[Any],
        /,
        *args: *Ts,
    ) -> "concurrent.futures.Future[Any]":
        """Call `function(*args)` on a member's loop, await the result if it can be awaited; return a future of it.

        With threads, `function` may be a coroutine instead. With processes it, its arguments and its result are
        pickled. The future raises what the function raises, and MemberFailedError if the member ends first; cancelling
        it cancels the call. Thread: any; in a member, use `Member.run_on`. Raises UsageError if the group does not run.
        """
        index = member if isinstance(member, int) else member.index
        supervisor = self._running("run_on")
        if inspect.isawaitable(function) and not callable(function):
            if self._part.kind == "processes":
                raise UsageError(
                    "a coroutine cannot be sent to another process; pass its function and the arguments: "
                    f"group.run_on({index}, function, *args)"
                )
            if args:
                raise UsageError("a coroutine takes no more arguments; pass its function to give some")
            return supervisor.run_on(index, lambda: function, ())
        return supervisor.run_on(index, function, args)

    def stats(self, timeout: float = 1.0) -> GroupStats:
        """Return the figures of every loop, and their sum. `timeout` is how many seconds a loop has to answer."""
        supervisor = self._running("stats")
        return supervisor.call(supervisor.stats(timeout)).result()

    # Checks

    def _running(self, what: str) -> Supervisor:
        if self._supervisor is None or self._supervisor.over.is_set():
            raise UsageError(f"{what} needs a group that runs, this one is {self.state}; use it between start and stop")
        return self._supervisor

    def _refuse_member_threads(self, what: str) -> None:
        if getattr(current, "member", None) is not None and self._part.kind == "threads":
            raise UsageError(
                f"a group cannot be {what} by one of its members, which would wait for itself; see request_drain"
            )


class Signals:
    """SIGINT and SIGTERM while a group runs in the main thread: the first drains, the second stops if `escalate`."""

    def __init__(self, group: LoopGroup, escalate: bool) -> None:
        self._group = group
        self._escalate = escalate
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self.count = 0
        self.forced = 0

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was set by C code

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            self._group.request_drain()
        elif self._escalate:
            self.forced = 128 + number
            self._group._request_stop()


def _begin_to(supervisor: Supervisor, end: End) -> "concurrent.futures.Future[None] | None":
    """Have the supervisor end the group; return None if it has ended. Thread: any."""
    try:
        return supervisor.call(end(supervisor))
    except UsageError:
        return None


def wait_for(event: threading.Event, timeout: float | None = None) -> bool:
    """Wait for an event so that signal handlers run meanwhile."""
    if timeout is None and sys.platform == "win32":  # a wait without limit is not interrupted there
        while not event.wait(0.5):
            pass
    return event.wait(timeout)


def processors() -> int:
    """Return how many processors this process may use."""
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
