"""Recorder: the plugin. Its options, what hooks report to it, and when it writes a dump."""

import gc
import mmap
import os
import signal
import threading
import time
from collections import deque
from itertools import count
from pathlib import Path
from typing import Any

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.hooks.types import Job, Loop
from loopcore.log import plugin_logger
from loopcore_plugins.recorder import signals
from loopcore_plugins.recorder.busy import KEPT, BusyThreads
from loopcore_plugins.recorder.facts import describe_stall, facts_of, identity_of
from loopcore_plugins.recorder.files import keep_earlier, map_new, writable, write_recording
from loopcore_plugins.recorder.history import history
from loopcore_plugins.recorder.labels import Labels
from loopcore_plugins.recorder.layout import RECORD, Kind, Word
from loopcore_plugins.recorder.ring import Ring, size_of
from loopcore_plugins.recorder.tape import Tape
from loopcore_plugins.trace.ending import LastChance
from loopcore_plugins.trace.naming import describe_error, fill_in
from loopcore_plugins.watchdog.request import RequestReader
from loopcore_plugins.watchdog.stall import Stall
from loopcore_plugins.watchdog.watch import Watch
from loopcore_plugins.watchdog.watch_thread import watch_thread

logger = plugin_logger.getChild("recorder")

DEFAULT_DUMPS = "loopcore-dump-{pid}-{n}.rec"
LARGEST = 1024  # MiB
LONGEST = 1_000_000
SHORTEST_COLLECTION_NS = 100_000
STALLS_KEPT = 64
PERCENTILE = 99

_instances = count(1)
_dumps = count(1)
_generations = count(1)
_SHIFT = time.monotonic_ns() - time.perf_counter_ns()
_JOB_CLOCK_OFFSET = 0 if abs(_SHIFT) < 1_000_000 else _SHIFT  # jobs use perf_counter_ns; on most systems it is the same


class Recorder:
    """Keeps what a loop did last, and writes it down when something goes wrong. An object is for one loop.

    `size`: MiB of records, 16 bytes each; rounded up to a power of two. `file`: keep them in this file, which survives
    a process that is killed, and is removed when the loop is closed. `dumps`: the names of dumps. Both may contain
    {pid} and {n}. `stall`: seconds after which a stall is dumped, 0 for never. `delay`: dump when the working time of
    more than one tick in a hundred exceeds so many seconds; 0 for never. `exceptions`: dump when the loop's exception
    handler is called. `connections`: record the time and size of each receive and send, for `loopcore sim replay`.
    `signal`: dump on this signal (`USR2`). `at_exit`: dump when the loop is closed, or when SIGTERM ends the process.
    `most` and `every` limit the dumps of `stall`, `delay` and `exceptions`: their number, and the seconds between two.
    """

    def __init__(
        self,
        *,
        size: int = 4,
        file: Path | None = None,
        dumps: Path = Path(DEFAULT_DUMPS),
        stall: float = 0.25,
        delay: float = 0.0,
        exceptions: bool = True,
        connections: bool = False,
        signal: str = "",
        at_exit: bool = False,
        most: int = 10,
        every: float = 60.0,
    ) -> None:
        if not 1 <= size <= LARGEST:
            raise UsageError(f"recorder keeps from 1 to {LARGEST} MiB of records; size={size} is not among them")
        for name, value in {"stall": stall, "delay": delay, "every": every, "most": most}.items():
            if not 0 <= value <= LONGEST:
                raise UsageError(f"recorder: {name}={value} must be from 0 to {LONGEST}")
        self._capacity = 1 << (size * (1 << 20) // RECORD - 1).bit_length()
        number = next(_instances)
        self._file = None if file is None else writable(fill_in(Path(file).absolute(), pid=os.getpid(), n=number))
        if self._file is not None:
            keep_earlier(self._file)
            map_new(self._file, size_of(self._capacity)).close()  # an error is one of the options, and not of the loop
            self._file.unlink()
        self._dumps = writable(Path(dumps).absolute())
        self._threshold = stall
        self._delay = delay
        self._exceptions = exceptions
        self._connections = connections
        self._signal = _number_of(signal)
        self._most, self._every = most, every
        self.read_request = RequestReader().read
        self._written = 0
        self._written_at = float("-inf")
        self._lock = threading.RLock()  # a finalizer that runs inside may report an exception
        self._loop: Any = None
        self._tape: Tape | None = None
        self._thread_id = 0
        self._collection_began = 0
        self._waiting_jobs: dict[str, set[int]] = {}  # by pool
        self._stalls: list[dict[str, Any]] = []
        self._stall_count = 0
        self._busy: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._busy_threads: BusyThreads | None = None
        self._watch: Watch | None = None
        self._at_exit = at_exit
        self._last_chance = LastChance(self._end_by_sigterm) if at_exit or file is not None else None
        self._stalls_under_way: list[tuple[Stall, Path | None, int]] = []

    # For programs

    def dump(self, path: Path | None = None, reason: str = "command", detail: str = "") -> Path:
        """Write what is recorded to `path`, by default the next of `dumps`; return it. Thread: any.

        The records are copied while the GIL is held: some milliseconds for 4 MiB. Without the GIL the loop goes on, and
        the record that it writes meanwhile may be incomplete.

        Raises OSError if it cannot be written, UsageError before the recorder is registered with a loop.
        """
        tape = self._tape
        if tape is None:
            raise UsageError("the recorder records no loop, so it has nothing to dump: register it with a loop first")
        content = self._content(tape, reason, detail)
        path = self._next_path() if path is None else Path(path)
        write_recording(path, content)
        return path

    def history(self, task: Any, limit: int = 50) -> list[dict[str, Any]]:
        """Return what the ring still has of `task`, oldest first: `at_ns` (monotonic), `what`, `code`. Thread: any."""
        tape = self._tape
        return [] if tape is None else history(tape, identity_of(task), limit)

    # The life of the loop

    @hookimpl
    def loopcore_make_observer(self, loop: Loop) -> Tape:
        """Begin to record `loop`."""
        if self._tape is not None:
            raise UsageError("a Recorder is for one loop: make another for the second")
        if any(isinstance(plugin, Recorder) and plugin is not self for _, plugin in loop.probes.plugins()):
            raise UsageError("this loop has a recorder already, and a task has room for the label of one")
        size = size_of(self._capacity)
        memory = mmap.mmap(-1, size) if self._file is None else map_new(self._file, size)
        ring = Ring(memory, self._capacity)
        self._loop, self._tape = loop, Tape(loop, ring, Labels(memory, ring.set_word), next(_generations))
        self._tape.counts_connections = self._connections
        if self._delay:
            self._tape.watch_delay(int(self._delay * 1e9), self._check_delay)
        return self._tape

    @hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Watch collections, signals and, if the loop runs, its thread."""
        gc.callbacks.append(self._note_collection)
        if self._last_chance is not None:
            self._last_chance.take()
        if self._signal is not None:
            signals.add(self._signal, self._dump_on_signal)
        if loop.is_running():
            self.loopcore_run_started(loop)

    @hookimpl
    def loopcore_plugin_unregistered(self, loop: Loop) -> None:
        """Stop recording."""
        if loop is self._loop:  # not a second loop that was refused
            self._end(loop)

    @hookimpl
    def loopcore_loop_closed(self, loop: Loop) -> None:
        """Write the last dump."""
        self._dump_at_exit()
        self._end(loop)

    @hookimpl
    def loopcore_fork_child(self, loop: Loop) -> None:
        """Stop recording: the memory, the file, the watch thread and the dump of a stall are the parent's."""
        self._file = self._watch = None
        self._stalls_under_way = []
        loop.probes.unregister(self)

    @hookimpl
    def loopcore_run_started(self, loop: Loop) -> None:
        """Measure and watch this thread."""
        if self._tape is None:
            return
        self._thread_id = threading.get_ident()
        self._tape.follow_thread()
        self._tape.ring.set_word(Word.THREAD, threading.get_native_id())
        if self._threshold and self._watch is None:
            watch = Watch(loop, self._threshold, self)
            try:
                watch_thread().add(watch)
            except RuntimeError as exc:  # the limit of threads is reached
                logger.error("stalls of this run of the loop are not recorded: %s", exc)
                return
            self._watch = watch
            self._busy_threads = BusyThreads(self._threshold, self._busy)
            watch_thread().add(self._busy_threads)

    @hookimpl
    def loopcore_run_stopped(self, loop: Loop) -> None:
        """Stop watching. The end of a stall may be noted a moment later."""
        if self._watch is not None:
            watch_thread().drop(self._watch)
            self._watch = None
            if self._busy_threads is not None:
                watch_thread().drop(self._busy_threads)

    def _end_by_sigterm(self) -> None:
        # uvicorn ends so, too, after an orderly shutdown.
        self._dump_at_exit()
        self._remove_file()

    def _remove_file(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _end(self, loop: Any) -> None:
        self.loopcore_run_stopped(loop)
        self._finish_stalls()
        if self._note_collection in gc.callbacks:
            gc.callbacks.remove(self._note_collection)
        if self._last_chance is not None:
            self._last_chance.leave()
        if self._signal is not None:
            signals.remove(self._signal, self._dump_on_signal)
        tape, self._tape = self._tape, None
        if tape is not None:
            tape.close()
            self._remove_file()

    # What the observer cannot see

    @hookimpl
    def loopcore_transport_opened(self, transport: Any) -> None:
        """Record it."""
        self._put(Kind.OPENED, _is_accepted(transport), type(transport.get_protocol()), id(transport))
        if self._connections and self._tape is not None and not _is_encrypted(transport):
            self._tape.follow_connection(transport)

    @hookimpl
    def loopcore_transport_closed(self, transport: Any) -> None:
        """Record it."""
        if self._connections and self._tape is not None:
            self._tape.leave_connection(transport)
        self._put(Kind.CLOSED, 0, type(transport.get_protocol()), id(transport))

    @hookimpl
    def loopcore_job_submitted(self, job: Job) -> None:
        """Record it."""
        with self._lock:
            self._waiting_jobs.setdefault(job.pool, set()).add(id(job))
        self._put(Kind.JOB_SUBMITTED, 0, job.function, id(job))

    @hookimpl
    def loopcore_job_started(self, job: Job) -> None:
        """Count it. Thread: the pool's."""
        self._stop_waiting(job)

    @hookimpl
    def loopcore_job_finished(self, job: Job) -> None:
        """Record it at the next tick. Thread: the pool's."""
        tape = self._tape
        if tape is None:
            return
        waiting = min(self._stop_waiting(job), 255)
        who, function, failed = id(job), job.function, job.error is not None
        started, ended = (ns + _JOB_CLOCK_OFFSET if ns else 0 for ns in (job.started_ns, job.finished_ns))
        thread = threading.current_thread().name

        def write() -> None:
            tape.ring.put(Kind.JOB, failed, tape.label_of(function), who)
            tape.ring.put(Kind.JOB_STARTED, 0, tape.labels.of_text(thread), started)
            tape.ring.put(Kind.JOB_ENDED, waiting, 0, ended)

        tape.later(write)

    def _stop_waiting(self, job: Job) -> int:
        """Return how many jobs wait in the same pool."""
        with self._lock:
            waiting = self._waiting_jobs.get(job.pool, set())
            waiting.discard(id(job))
            if not waiting:
                self._waiting_jobs.pop(job.pool, None)
            return len(waiting)

    @hookimpl
    def loopcore_exception(self, context: dict[str, Any]) -> None:
        """Record it, and write a dump. Thread: the one that reports."""
        message = str(context.get("message"))
        error = describe_error(context.get("exception"))
        text = message if error is None else f"{error} ({message})"
        tape = self._tape
        if tape is None:
            return
        if threading.get_ident() == self._thread_id:
            tape.ring.put(Kind.ERROR, 0, tape.labels.of_text(text), 0)
        else:
            tape.later(lambda: tape.ring.put(Kind.ERROR, 0, tape.labels.of_text(text), 0))
        if self._exceptions:
            self._dump_if_due("exception", text)

    def _put(self, kind: Kind, argument: int, work: Any, who: int) -> None:
        tape = self._tape
        if tape is not None:
            tape.ring.put(kind, argument, tape.label_of(work), who)

    def _note_collection(self, phase: str, info: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread_id:
            return
        now = time.monotonic_ns()
        if phase == "start":
            self._collection_began = now
        elif self._tape is not None and self._collection_began:
            taken, self._collection_began = now - self._collection_began, 0
            if taken >= SHORTEST_COLLECTION_NS:
                self._tape.ring.put(Kind.COLLECTED, info["generation"], 0, taken)

    # Dumps

    def note_standstill(self) -> None:
        """Do nothing: the loop was idle (`WatchHost`)."""

    def note_stall(self, event: str, loop: Any, stall: Stall) -> None:
        """Write a dump when a stall begins, in case the loop never goes on; its end replaces that (`WatchHost`)."""
        if event == "begin":
            self._stall_count += 1
            self._stalls = [*self._stalls[1 - STALLS_KEPT :], describe_stall(stall, self._stall_count)]
            path = self._dump_if_due("stall", f"{stall.cause}, {stall.seconds:.2f} s so far")
            self._stalls_under_way.append((stall, path, self._stall_count))
            return
        self._stalls[-1] = describe_stall(stall, self._stall_count)
        try:  # in the next tick, whose records say what kept the thread from running
            loop.call_soon_threadsafe(self._finish_stalls)
        except RuntimeError:  # closed
            self._finish_stalls()

    def _finish_stalls(self) -> None:
        tape = self._tape
        for each in [each for each in self._stalls_under_way if each[0].over]:  # the next may have begun already
            try:
                self._stalls_under_way.remove(each)
            except ValueError:  # the loop is being closed, and its thread or the watch thread has done it
                continue
            stall, path, number = each
            if tape is None:
                continue
            tape.ring.put(Kind.STALL, number & 0xFF, 0, int(stall.seconds * 1e9))
            if path is not None:
                content = self._content(tape, "stall", f"{stall.cause}, {stall.seconds:.2f} s")
                self._write_aside(path, content, is_again=True)

    def _check_delay(self, slow: int, ticks: int) -> None:
        if slow * 100 > ticks * (100 - PERCENTILE):
            self._dump_if_due("delay", f"{slow} of {ticks} ticks worked for more than {self._delay} s")

    def _dump_on_signal(self, signum: int) -> None:
        tape = self._tape
        if tape is not None:
            self._write(self._next_path(), self._content(tape, "signal", signal.Signals(signum).name))

    def _dump_at_exit(self) -> None:
        tape = self._tape
        if tape is not None and self._at_exit:
            self._write(self._next_path(), self._content(tape, "exit", ""))

    def _dump_if_due(self, reason: str, detail: str) -> Path | None:
        tape, now = self._tape, time.monotonic()
        with self._lock:
            wait = self._every - (now - self._written_at)
            if tape is None or self._written >= self._most or wait > 0:
                if tape is not None:
                    is_last = self._written >= self._most
                    until = "until the process ends: most is reached" if is_last else f"for {wait:.0f} s"
                    logger.info("no recording is written of this (%s: %s), nor of others %s", reason, detail, until)
                return None
            self._written += 1
            self._written_at = now
        path, content = self._next_path(), self._content(tape, reason, detail)
        self._write_aside(path, content)
        return path

    def _write_aside(self, path: Path, content: bytearray, is_again: bool = False) -> None:
        """Write in another thread than the loop's, unless none can be started."""
        if threading.get_ident() == self._thread_id:
            arguments = (path, content, is_again)
            try:
                threading.Thread(target=self._write, args=arguments, name="loopcore-recorder").start()
            except RuntimeError:  # the limit of threads is reached
                pass
            else:
                return
        self._write(path, content, is_again)

    def _next_path(self) -> Path:
        return fill_in(self._dumps, pid=os.getpid(), n=next(_dumps))

    def _content(self, tape: Tape, reason: str, detail: str) -> bytearray:
        busy = [] if self._busy_threads is None else self._busy_threads.until_now()
        facts = facts_of(self._loop, reason, detail, self._stalls, busy, tape.labels.dropped)
        content = bytearray(tape.ring.memory)
        content[8 * Word.FACTS : 8 * Word.FACTS + 8] = len(facts).to_bytes(8, "little")
        content += facts
        return content

    def _write(self, path: Path, content: bytearray, is_again: bool = False) -> None:
        try:
            write_recording(path, content)
        except OSError as exc:
            logger.error("a recording could not be written: %s; name another place with recorder:dumps=PATH", exc)
        else:
            if not is_again:
                logger.warning("a recording was written to %s; read it with: loopcore why %s", path, path)


def _is_encrypted(transport: Any) -> bool:
    return transport.get_extra_info("sslcontext") is not None


def _is_accepted(transport: Any) -> bool:
    """Return whether a server has accepted this connection; of TLS, only the transport below, which has the bytes."""
    owners = (transport, transport.get_protocol())  # the protocol of a transport below TLS is the TLS connection
    return not _is_encrypted(transport) and any(getattr(each, "_server", None) is not None for each in owners)


def _number_of(name: str) -> signal.Signals | None:
    if not name:
        return None
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in signal.Signals.__members__:
        raise UsageError(f"recorder: this system has no {name}; give a signal's name, as in signal=USR2")
    if name in ("SIGKILL", "SIGSTOP"):
        raise UsageError(f"recorder cannot dump on {name}, which programs cannot catch; try signal=USR2")
    return signal.Signals[name]
