"""Recorder: the plugin. Its options, what it hears of the loop through hooks, and when it writes a dump."""

import gc
import mmap
import os
import signal
import threading
import time
from collections import Counter, deque
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.log import plugin_logger
from loopcore_plugins.recorder.busy import KEPT, BusyThreads
from loopcore_plugins.recorder.facts import describe_stall, facts_of, identity_of
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
    a process that is killed, and goes when the loop is closed. `dumps`: the names of dumps. Both may contain {pid} and
    {n}. `stall`: seconds after which a stall is dumped, 0 for never. `delay`: dump when the working time of more than
    one tick in a hundred exceeds so many seconds; 0 for never. `exceptions`: dump when the loop's exception handler is
    called. `signal`: dump on this signal (`USR2`). `at_exit`: dump when the loop is closed, or SIGTERM ends the
    process. `most` and `every`: how many dumps are written by themselves at most, and the seconds between two.
    """

    def __init__(
        self,
        *,
        size: int = 4,
        file: Path | None = None,
        dumps: Path = Path(DEFAULT_DUMPS),
        stall: float = 0.1,
        delay: float = 0.0,
        exceptions: bool = True,
        signal: str = "",
        at_exit: bool = False,
        most: int = 10,
        every: float = 60.0,
    ) -> None:
        if not 1 <= size <= LARGEST:
            raise UsageError(f"recorder keeps from 1 to {LARGEST} MiB of records; size={size} is not among them")
        if min(stall, delay, every, most) < 0:
            raise UsageError(f"recorder: stall={stall}, delay={delay}, every={every} and most={most} are 0 or more")
        self._capacity = 1 << (size * (1 << 20) // RECORD - 1).bit_length()
        number = next(_instances)
        self._file = None if file is None else _writable(fill_in(Path(file), pid=os.getpid(), n=number))
        self._dumps = _writable(Path(dumps))
        self._threshold = stall
        self._delay = delay
        self._exceptions = exceptions
        self._signal = _number_of(signal)
        self._most, self._every = most, every
        self._written = 0
        self._written_at = float("-inf")
        self._lock = threading.Lock()
        self._loop: Any = None
        self._tape: Tape | None = None
        self._thread_id = 0
        self._collection_began = 0
        self._waiting_jobs: Counter[str] = Counter()
        self._stalls: list[dict[str, Any]] = []
        self._stall_count = 0
        self._busy: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._busy_threads: BusyThreads | None = None
        self._watch: Watch | None = None
        self._last_chance = LastChance(self._dump_at_exit) if at_exit else None

    # For programs

    def dump(self, path: Path | None = None, reason: str = "command", detail: str = "") -> Path:
        """Write what is recorded to `path`, by default the next of `dumps`; return it. Thread: any.

        Raises OSError if it cannot be written, UsageError before the recorder is registered with a loop.
        """
        content = self._content(reason, detail)
        path = self._next_path() if path is None else path
        _write(path, content)
        return path

    def history(self, task: Any, limit: int = 50) -> list[dict[str, Any]]:
        """Return what the ring still has of `task`, oldest first: `at_ns` (monotonic), `what`, `code`. Thread: any."""
        tape = self._tape
        return [] if tape is None else history(tape, identity_of(task), limit)

    # The life of the loop

    @hookimpl
    def loopcore_make_observer(self, loop: Any) -> Tape:
        """Begin to record `loop`."""
        if self._tape is not None:
            raise UsageError("a Recorder is for one loop: make another for the second")
        size = size_of(self._capacity)
        memory = mmap.mmap(-1, size) if self._file is None else _map(self._file, size)
        ring = Ring(memory, self._capacity)
        self._loop, self._tape = loop, Tape(loop, ring, Labels(memory, ring.set_word), next(_generations))
        if self._delay:
            self._tape.watch_delay(int(self._delay * 1e9), self._check_delay)
        return self._tape

    @hookimpl
    def loopcore_plugin_registered(self, loop: Any) -> None:
        """Start what runs beside the loop."""
        gc.callbacks.append(self._note_collection)
        if self._last_chance is not None:
            self._last_chance.take()
        if self._signal is not None and threading.current_thread() is threading.main_thread():
            signal.signal(self._signal, self._on_signal)
        if loop.is_running():
            self.loopcore_run_started(loop)

    @hookimpl
    def loopcore_plugin_unregistered(self, loop: Any) -> None:
        """Stop recording."""
        self._end(loop)

    @hookimpl
    def loopcore_loop_closed(self, loop: Any) -> None:
        """Write the last dump."""
        if self._last_chance is not None and self._tape is not None:
            self._dump_at_exit()
        self._end(loop)

    @hookimpl
    def loopcore_fork_child(self, loop: Any) -> None:
        """Forget the parent's recording: its file is the parent's."""
        self._file = None
        self._end(loop)

    @hookimpl
    def loopcore_run_started(self, loop: Any) -> None:
        """Measure and watch this thread."""
        if self._tape is None:
            return
        self._thread_id = threading.get_ident()
        self._tape.follow_thread()
        self._tape.ring.set_word(Word.THREAD, threading.get_native_id())
        if self._threshold and self._watch is None:
            request = RequestReader().read
            self._watch = Watch(loop, self._threshold, self._note_stall, watch_thread().hurry, _ignore, request)
            watch_thread().add(self._watch)
            self._busy_threads = BusyThreads(self._threshold, self._busy)
            watch_thread().add(self._busy_threads)

    @hookimpl
    def loopcore_run_stopped(self, loop: Any) -> None:
        """Stop watching. The end of a stall may be noted a moment later."""
        if self._watch is not None:
            self._watch.gone = True
            self._watch = None
            if self._busy_threads is not None:
                self._busy_threads.gone = True
            watch_thread().hurry()

    def _end(self, loop: Any) -> None:
        self.loopcore_run_stopped(loop)
        if self._note_collection in gc.callbacks:
            gc.callbacks.remove(self._note_collection)
        if self._last_chance is not None:
            self._last_chance.leave()
        is_main = threading.current_thread() is threading.main_thread()
        if self._signal is not None and is_main and signal.getsignal(self._signal) == self._on_signal:
            signal.signal(self._signal, signal.SIG_DFL)
        tape, self._tape = self._tape, None
        if tape is not None:
            tape.close()
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    # What the observer cannot see

    @hookimpl
    def loopcore_transport_opened(self, transport: Any) -> None:
        """Record it."""
        self._put(Kind.OPENED, 0, type(transport.get_protocol()), id(transport))

    @hookimpl
    def loopcore_transport_closed(self, transport: Any) -> None:
        """Record it."""
        self._put(Kind.CLOSED, 0, type(transport.get_protocol()), id(transport))

    @hookimpl
    def loopcore_job_submitted(self, job: Any) -> None:
        """Record it."""
        self._waiting_jobs[job.pool] += 1
        self._put(Kind.JOB_SUBMITTED, 0, job.function, id(job))

    @hookimpl
    def loopcore_job_started(self, job: Any) -> None:
        """Count it. Thread: the pool's."""
        self._waiting_jobs[job.pool] -= 1

    @hookimpl
    def loopcore_job_finished(self, job: Any) -> None:
        """Record it at the next tick. Thread: the pool's."""
        tape = self._tape
        if tape is None:
            return
        if not job.started_ns:
            self._waiting_jobs[job.pool] -= 1
        waiting = min(max(self._waiting_jobs[job.pool], 0), 255)
        who, function, failed = id(job), job.function, job.error is not None
        started, ended = (ns + _JOB_CLOCK_OFFSET if ns else 0 for ns in (job.started_ns, job.finished_ns))
        thread = threading.current_thread().name

        def write() -> None:
            tape.ring.put(Kind.JOB, failed, tape.label_of(function), who)
            tape.ring.put(Kind.JOB_STARTED, 0, tape.labels.of_text(thread), started)
            tape.ring.put(Kind.JOB_ENDED, waiting, 0, ended)

        tape.later(write)

    @hookimpl
    def loopcore_exception(self, context: dict[str, Any]) -> None:
        """Record it, and write a dump. Thread: the one that reports."""
        message = str(context.get("message"))
        error = describe_error(context.get("exception"))
        text = message if error is None else f"{error} ({message})"
        tape = self._tape
        if tape is not None:
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

    def _note_stall(self, event: str, loop: Any, stall: Stall) -> None:
        # In the watchdog's thread. The dump of the beginning is there if the loop never goes on; the end replaces it.
        if event == "begin":
            self._stall_count += 1
            self._stalls = [*self._stalls[-STALLS_KEPT:], describe_stall(stall, self._stall_count)]
            path = self._dump_if_due("stall", f"{stall.cause}, {stall.seconds:.2f} s so far")
            self._stalls[-1]["dump"] = None if path is None else str(path)
            return
        path = self._stalls[-1].get("dump")
        self._stalls[-1] = describe_stall(stall, self._stall_count)
        tape, number = self._tape, self._stall_count & 0xFF
        if tape is not None:
            tape.later(lambda: tape.ring.put(Kind.STALL, number, 0, int(stall.seconds * 1e9)))
            if path is not None:
                self._write(Path(path), self._content("stall", f"{stall.cause}, {stall.seconds:.2f} s"))

    def _check_delay(self, slow: int, ticks: int) -> None:
        if slow * 100 > ticks * (100 - PERCENTILE):
            self._dump_if_due("delay", f"{slow} of {ticks} ticks worked for more than {self._delay} s")

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self._tape is not None:
            self._write(self._next_path(), self._content("signal", signal.Signals(signum).name))

    def _dump_at_exit(self) -> None:
        self._write(self._next_path(), self._content("exit", ""))

    def _dump_if_due(self, reason: str, detail: str) -> Path | None:
        now = time.monotonic()
        with self._lock:
            if self._tape is None or self._written >= self._most or now - self._written_at < self._every:
                return None
            self._written += 1
            self._written_at = now
        path, content = self._next_path(), self._content(reason, detail)
        if threading.get_ident() == self._thread_id:
            threading.Thread(target=self._write, args=(path, content), name="loopcore-recorder").start()
        else:
            self._write(path, content)
        return path

    def _next_path(self) -> Path:
        return fill_in(self._dumps, pid=os.getpid(), n=next(_dumps))

    def _content(self, reason: str, detail: str) -> bytes:
        tape = self._tape
        if tape is None:
            raise UsageError("the recorder has nothing to dump: register it with a loop first")
        busy = [] if self._busy_threads is None else self._busy_threads.until_now()
        facts = facts_of(self._loop, reason, detail, self._stalls, busy, tape.labels.dropped)
        content = bytearray(tape.ring.memory)
        content[8 * Word.FACTS : 8 * Word.FACTS + 8] = len(facts).to_bytes(8, "little")
        return bytes(content + facts)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            _write(path, content)
        except OSError as exc:
            logger.error("the recording could not be written to %s: %s", path, exc)
        else:
            logger.warning("a recording was written to %s; read it with: loopcore why %s", path, path)


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content)
    os.replace(part, path)


def _writable(path: Path) -> Path:
    if not path.parent.is_dir():
        raise UsageError(f"recorder cannot write {path}: there is no directory {path.parent}; mkdir -p {path.parent}")
    if path.is_dir():
        raise UsageError(f"recorder cannot write {path}: it is a directory")
    return path


def _map(path: Path, size: int) -> mmap.mmap:
    try:
        with open(path, "w+b", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.truncate(size)
            return mmap.mmap(file.fileno(), size)
    except OSError as exc:
        raise UsageError(f"recorder cannot keep its records in {path}: {exc}") from exc


def _number_of(name: str) -> signal.Signals | None:
    if not name:
        return None
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        raise UsageError(f"recorder: there is no signal {name!r}; signal=USR2, for example") from None


def _ignore() -> None:
    """For times in which the whole process stood still while the loop was idle."""
