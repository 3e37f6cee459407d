"""Children: which process has ended, and with which code. Each one is reaped once, in the loop's thread.

SIGCHLD is left to the program, and so is the wake-up descriptor of signals. A child is watched in one of three ways:

- *port*, if a completion port has WaitProcess: only an operation, no descriptor and no thread. It does not reap, so the
  process id stays in use until the loop's thread reaps the child; code that asks the Popen object still gets the code.
- *pidfd* (Linux 5.3): a descriptor that becomes readable when the process ends; one more row in the readiness
  table. It always refers to this process, so that neither waitid(2) nor a signal can reach another process that has
  got the same id meanwhile.
- *a thread per child*, if pidfds do not exist or cannot be had (no descriptor left, a sandbox that forbids it). It
  sleeps in waitid(2) until the process ends and leaves it a zombie (WNOWAIT), so that its id stays in use; the loop's
  thread, notified by `call_soon_threadsafe`, reaps it. One thread for all children would have to wait for
  "any child", which returns at once, again and again, while the program has another zombie that loopcore must not reap;
  or else it would have to poll. A sleeping thread costs a stack that is hardly touched. It is a daemon: the interpreter
  does not wait for other programs to end. Where waitid(2) is forbidden, the thread reaps.

A code that other code has taken (a waitpid(-1) in the program, an ignored SIGCHLD) is lost: 255 is reported then, with
a warning, as asyncio does. A code that was taken through the Popen object is read from that object.

When the loop closes, watching ends. A child that is still running then has no watcher: its thread reaps it; one with
a pidfd is left to `subprocess`, which reaps ended children when the next process is started.

Facts: pidfd_open(2), waitid(2). Thread: the loop's own.
"""

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from loopcore.kernel.completions import Completions
from loopcore.kernel.readiness import Readiness
from loopcore.kernel.runnable import Runnable
from loopcore.log import logger
from loopcore.ports.operations import WaitProcess
from loopcore.ports.readiness import Capability

if TYPE_CHECKING:
    from loopcore.kernel.phases import Closeable

Process: TypeAlias = "subprocess.Popen[bytes]"
Exited: TypeAlias = Callable[[int], object]
"""Called with the return code: the exit status, or minus the signal that ended the process."""

UNKNOWN_CODE: Final = 255
"""Reported for a child that other code has reaped; the number is asyncio's."""
NOTE_TIMEOUT: Final = 1.0
"""Seconds that another thread may take to store the code that it has read."""
HAS_PIDFD: Final = hasattr(os, "pidfd_open") and hasattr(os, "P_PIDFD")
HAS_WAITID: Final = hasattr(os, "waitid")
"""Whether the end of a process can be detected without reaping it. macOS can from Python 3.13 on."""
WINDOWS: Final = sys.platform == "win32"
THREAD_PREFIX: Final = "loopcore_child"
PORT: Final = "port"
PIDFD: Final = "pidfd"


class ChildHost(Protocol):
    """The loop as this module uses it."""

    _readiness: Readiness

    @property
    def _completions(self) -> Completions | None: ...

    def _close_soon(self, resource: "Closeable") -> None: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...


class Child(Runnable):
    """One watched child. Running it checks whether the process has ended."""

    __slots__ = (
        "process",
        "_exited",
        "_watched",
        "_readiness",
        "_pidfd",
        "_completions",
        "_waiting",
        "_watch_otherwise",
    )

    def __init__(self, process: Process, exited: Exited, watched: "set[Child]", readiness: Readiness) -> None:
        """`watched` is the set that contains this child until it has ended."""
        self.process = process
        self._exited: Exited | None = exited
        self._watched = watched
        self._readiness = readiness
        self._pidfd: int = -1
        self._completions: Completions | None = None
        self._waiting: WaitProcess | None = None
        self._watch_otherwise: Callable[[Child], object] | None = None

    def is_running(self, unknown: bool = True) -> bool:
        """Return whether the process was alive just now, or `unknown`; a zombie is not. Never reaps."""
        if self.process.returncode is not None:
            return False
        try:
            if WINDOWS:
                return self.process.poll() is None
            if HAS_WAITID:
                return os.waitid(*self._identity(), os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False
        except OSError:  # as in `_wait`
            pass
        return unknown

    def send_signal(self, number: int) -> None:
        """Send a signal; without effect on a process that has ended. Raises PermissionError as kill(2)."""
        if self.process.returncode is not None:
            return
        if WINDOWS:
            self.process.send_signal(number)
            return
        try:
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)
            else:
                os.kill(self.process.pid, number)
        except ProcessLookupError:
            pass

    def watch_operation(self, completions: Completions, otherwise: "Callable[[Child], object]") -> bool:
        """Watch the process through the completion port; return whether that is possible.

        `otherwise` is called if the port gives up before the process has ended.
        """
        waiting = WaitProcess(self.process.pid, self)
        try:
            completions.submit(waiting)
        except OSError:
            return False
        self._waiting = waiting
        self._completions = completions
        self._watch_otherwise = otherwise
        return True

    def watch_descriptor(self) -> bool:
        """Watch the process through a pidfd in the readiness table; return whether that is possible."""
        try:
            pidfd = os.pidfd_open(self.process.pid)
        except OSError:  # no descriptor left, forbidden, unknown to the kernel; or the process is already reaped
            return False
        try:
            self._readiness.set_reader(pidfd, self)
        except (OSError, ValueError):  # select(2) accepts no number above 1023
            os.close(pidfd)
            return False
        self._pidfd = pidfd
        return True

    def _run(self) -> None:
        exited = self._exited
        if exited is None:
            return
        otherwise, self._watch_otherwise = self._watch_otherwise, None
        self._waiting = None
        code = self._reap()
        if code is not None:
            self.stop()
            self._watched.discard(self)
            exited(code)
        elif otherwise is not None:  # the port has failed
            otherwise(self)

    def ended(self, code: int | None) -> None:
        """Called by the watching thread through the loop: with the code if it had to reap, otherwise None."""
        if self._exited is not None and code is not None and self.process.returncode is None:
            self.process.returncode = code
        self._run()

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        self._exited = None
        self._watch_otherwise = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None and self._completions is not None:
            self._completions.cancel(waiting)
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            self._readiness.forget(pidfd)
            os.close(pidfd)

    def _reap(self) -> int | None:
        """Return the code, None while the process runs. It is stored in the Popen object, too."""
        process = self.process
        if process.returncode is None:
            # Popen's own lock, held while another thread polls it: wait for a thread that has reaped the process and
            # not yet stored the code, and keep it from finding the process reaped by this one, for which it would store
            # 0.
            lock = process._waitpid_lock  # type: ignore[attr-defined]
            held = lock.acquire(False)
            if not held:
                if self.is_running(unknown=False):
                    return None
                # For a moment only: a thread that waits for an ended process already has its code. In a forked child
                # the lock may be held for ever.
                held = lock.acquire(timeout=NOTE_TIMEOUT)
            try:
                if process.returncode is None:
                    process.returncode = self._code()
            finally:
                if held:
                    lock.release()
        return process.returncode

    def _code(self) -> int | None:
        try:
            return self._wait()
        except ChildProcessError:
            logger.warning(
                "child process pid %d exit status already read: will report returncode %d",
                self.process.pid,
                UNKNOWN_CODE,
            )
            return UNKNOWN_CODE

    def _wait(self) -> int | None:
        if WINDOWS:
            return self.process.poll()
        if self._pidfd < 0:
            pid, status = os.waitpid(self.process.pid, os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if pid else None
        try:
            found = os.waitid(*self._identity(), os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            raise
        except OSError:  # Linux 5.3 has pidfds but cannot wait for them; a sandbox may forbid the call
            pid, status = os.waitpid(self.process.pid, os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if pid else None
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def _identity(self) -> tuple[int, int]:
        return (os.P_PIDFD, self._pidfd) if self._pidfd >= 0 else (os.P_PID, self.process.pid)


class Children:
    """The children of one loop. Thread: its own."""

    __slots__ = ("_host", "_ways", "_watched", "survivors")

    def __init__(self, host: ChildHost, *, ways: Container[str] = (PORT, PIDFD)) -> None:
        """Without any of the `ways` every child gets a thread; that is for tests, and for sandboxes."""
        self._host = host
        self._ways = ways
        self._watched: set[Child] = set()
        self.survivors: weakref.WeakSet[Closeable] = weakref.WeakSet()
        """Resources of ended processes: pipes that other processes still hold. Closed with the loop."""

    def watch(self, process: Process, exited: Exited) -> Child:
        """Call `exited(code)` once `process` has ended, never during this call.

        Raises RuntimeError if a thread is needed and none can be started.
        """
        host = self._host
        child = Child(process, exited, self._watched, host._readiness)
        completions = host._completions
        if (
            completions is None
            or PORT not in self._ways
            or Capability.PROCESSES not in completions.backend.capabilities
            or not child.watch_operation(completions, self._watch_otherwise)
        ):
            self._watch_otherwise(child)
        self._watched.add(child)
        return child

    def _watch_otherwise(self, child: Child) -> None:
        """Watch by a pidfd, or else by a thread. Raises RuntimeError if none can be started."""
        if HAS_PIDFD and PIDFD in self._ways and child.watch_descriptor():
            return
        name = f"{THREAD_PREFIX}_{child.process.pid}"
        threading.Thread(target=_await_end, args=(self._host, child), name=name, daemon=True).start()

    def close(self) -> None:
        """Stop watching; no callback runs any more. Called when the loop is about to close."""
        for child in self._watched:
            child.stop()
        self._watched.clear()
        for survivor in self.survivors:
            self._host._close_soon(survivor)


def _await_end(host: ChildHost, child: Child) -> None:
    """Sleep until the process has ended, then notify the loop. Runs in a separate thread."""
    process = child.process
    code: int | None = None
    try:
        if WINDOWS:
            process.wait()  # nothing to reap: the code stays available through the handle
        elif not _await_zombie(process.pid):
            _, status = os.waitpid(process.pid, 0)
            code = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        pass  # reaped by other code, which `_reap` will report
    try:
        host.call_soon_threadsafe(child.ended, code)
    except RuntimeError:
        # The loop is closed, so only this thread can reap. Popen.poll is safe in any thread.
        if code is None:
            process.poll()
        else:
            process.returncode = code


def _await_zombie(pid: int) -> bool:
    """Sleep until the process has ended and leave it to be reaped; return False where that is impossible."""
    if not HAS_WAITID:
        return False
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        raise
    except OSError:  # forbidden by a sandbox
        return False
    return True
