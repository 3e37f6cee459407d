"""Tape: the observer that writes a loop's events into a ring.

For each event it makes a test, a label and a record. A step has no record of its end: it lasts until the next record
that begins something. Slow steps and long waits are rare, so they may be examined more closely: the place where a task
was suspended, the CPU time and the run-queue delay of the thread.

Thread: the loop's own, except `later`.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loopcore.hooks import observer
from loopcore.hooks.observer import Entry, Observer
from loopcore.hooks.sources import FLUSH, IO, TASK, THREADSAFE
from loopcore.ports.direct import DirectPort
from loopcore_plugins._tasktree import coroutine_stack
from loopcore_plugins.recorder.labels import Labels
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.ring import Ring

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython import cast
    from cython.cimports.loopcore._native.interpreter import identity, monotonic_ns
    from cython.cimports.loopcore._native.recording import address_of_code, counter, thread_cpu_ns, words
else:
    from loopcore._cython import cast
    from loopcore._native.interpreter import identity, monotonic_ns
    from loopcore._native.recording import address_of_code, counter, thread_cpu_ns, words

if TYPE_CHECKING:
    from loopcore.hooks.types import Loop

LONG_WAIT_MS = 5
"""Milliseconds after which the place where a task was suspended is recorded."""
SITES = 8
"""The most such places that are recorded in a millisecond."""
LONG_TICK_NS = 5_000_000
"""The working time after which the thread's CPU time is read at once, and not after the wait."""
SHORTEST_GIL_WAIT_NS = 50_000
MEASURE_EVERY_NS = 2_000_000
"""Between two readings of the thread's CPU time and run-queue delay; they take some 2 us."""
TICKS_TO_CHECK = 200
"""The fewest ticks between two calls of `check` (`watch_delay`), which gets the number of slow ones among them."""
KEPT_LABELS = 256
"""Labels that are found without a look into a dict; of two whose code's addresses collide, the later one."""
SUSPENDED = 4096
"""Tasks whose last step is remembered; of two whose identities collide, the later one."""

_WANTED = observer.WAIT_BEGINS | observer.WAIT_ENDS | observer.QUEUED | observer.BEGINS | observer.ENDS | observer.DUE
_WAIT_BEGINS, _WAIT_ENDS, _QUEUED = observer.WAIT_BEGINS, observer.WAIT_ENDS, observer.QUEUED
_BEGINS, _ENDS, _DUE = observer.BEGINS, observer.ENDS, observer.DUE
_BEGIN, _WAIT, _WAKE, _SPAWN, _POST = int(Kind.BEGIN), int(Kind.WAIT), int(Kind.WAKE), int(Kind.SPAWN), int(Kind.POST)
_DONE, _DUE_RECORD, _NAME, _SITE = int(Kind.DONE), int(Kind.DUE), int(Kind.NAME), int(Kind.SITE)
_RECEIVED, _SENT, _ACCEPTED = int(Kind.RECEIVED), int(Kind.SENT), int(Kind.ACCEPTED)
_CPU, _RUN_QUEUE, _GIL = int(Kind.CPU), int(Kind.RUN_QUEUE), int(Kind.GIL)
_RECEIVED_BY, _SENT_BY = int(Kind.RECEIVED_BY), int(Kind.SENT_BY)
_LABEL, _NAME_TASK, _HAS_BEGUN, _SHOW_SITE, _MEASURE, _WRITE_LATER, _SHOW_GIL_WAIT, _COUNT_CONNECTION = range(8)
_TASK, _THREADSAFE, _IO, _FLUSH = TASK, THREADSAFE, IO, FLUSH
_MOST_BYTES = (1 << 24) - 1
_LONG_WAIT_MS, _MEASURE_EVERY_NS, _SUSPENDED_MASK = LONG_WAIT_MS, MEASURE_EVERY_NS, SUSPENDED - 1
_MOST_EVENTS = (1 << 16) - 1
_LOW = (1 << 32) - 1
_NEVER = 1 << 62
_KEPT_MASK, _ADDRESS = KEPT_LABELS - 1, (1 << 48) - 1


class Tape(Observer):
    """Records one loop. `generation` tells its labels from those that an earlier tape gave to the same tasks."""

    __slots__ = (
        "ring",
        "labels",
        "_loop",
        "_labels_memory",
        "_kept_labels",
        "_generation",
        "_suspended",
        "_memory",
        "_is_first",
        "_now_ns",
        "_now_ms",
        "_sites_at",
        "_sites_left",
        "_long_tick_steps",
        "_gil_wait_steps",
        "_port",
        "_measured_at",
        "_schedstat",
        "_began",
        "_began_ns",
        "_longest_ns",
        "_longest_steps",
        "_check_delay",
        "_ticks",
        "_slow_ticks",
        "_counted",
        "has_later",
        "_later",
        "counts_connections",
        "_connections",
    )

    def __init__(self, loop: "Loop", ring: Ring, labels: Labels, generation: int) -> None:
        Observer.__init__(self, _WANTED)
        self.ring: Ring = ring
        self.labels: Any = labels
        self._loop: Any = loop
        # By the lower bits of the address of code that was labelled: the address, and 16 bits for the label.
        self._labels_memory: bytearray = bytearray(8 * KEPT_LABELS)
        self._kept_labels: Any = words(self._labels_memory)
        self._generation: int = generation & 0xFFFF
        # By the lower bits of a task's identity: more of them, and the millisecond in which its last step ended.
        self._memory: bytearray = bytearray(8 * SUSPENDED)
        self._suspended: Any = words(self._memory)
        self._is_first: bool = False
        self._now_ns: int = 0
        self._now_ms: int = 0
        self._sites_at: int = 0
        self._sites_left: int = 0
        self._long_tick_steps: int = _NEVER
        self._gil_wait_steps: int = _NEVER
        backend = loop.backend
        self._port: DirectPort | None = backend if isinstance(backend, DirectPort) else None
        if self._port is not None:
            self._port.times_gil = True
            self._port.gil_steps = 0
        self._measured_at: int = 0
        self._schedstat: int = -1
        self._began: int = counter()
        self._began_ns: int = monotonic_ns()
        self._longest_ns: int = 0
        self._longest_steps: int = _NEVER
        self._check_delay: Callable[[int, int], None] | None = None
        self._ticks: int = 0
        self._slow_ticks: int = 0
        self._counted: dict[int, int] = {}  # the loop's counters, last time
        self.has_later: bool = False
        self._later: deque[Callable[[], None]] = deque()
        self.counts_connections: bool = False
        self._connections: dict[int, tuple[int, int]] = {}  # bytes received and sent, by the transport's identity
        self._tick(0)

    def later(self, write: Callable[[], None]) -> None:
        """Call `write` in the loop's thread, at the next tick, so that it may use the ring. Thread: any.

        The recorder is removed if it raises.
        """
        self._later.append(write)
        self.has_later = True

    def label_of(self, work: Any) -> int:
        """Return the label of a function or class. Thread: the loop's own."""
        return self._label_of_work(work)

    def ns_per_step(self) -> float:
        """Return how long a step of the counter is. Thread: any."""
        steps: int = counter() - self._began
        return float(max(monotonic_ns() - self._began_ns, 1)) / max(steps, 1)  # a clock may stand still

    def watch_delay(self, longest_ns: int, check: Callable[[int, int], None]) -> None:
        """Call `check(slow, ticks)` after every 200 ticks or so; `slow` are those that worked for longer."""
        self._longest_ns = longest_ns
        self._check_delay = check

    def follow_connection(self, transport: Any) -> None:
        """Record what this transport receives and sends. It has been opened, and moved no bytes that matter."""
        if transport.get_extra_info("loopcore.bytes") is not None:
            self._connections[id(transport)] = (0, 0)

    def leave_connection(self, transport: Any) -> None:
        """Record the last bytes of a transport that is being closed."""
        if id(transport) in self._connections:
            self._note_received(transport, False)
            self._note_sent(transport)
            del self._connections[id(transport)]

    def follow_thread(self) -> None:
        """Measure the calling thread from now on; the loop runs in it."""
        self._close_schedstat()
        try:
            self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # not Linux, or a kernel without it
            self._schedstat = -1
        self._measured_at = 0

    def close(self) -> None:
        """Release the descriptor and the backend's clock. Idempotent."""
        if self._port is not None:
            self._port.times_gil = False
            self._port = None
        self._close_schedstat()

    def _close_schedstat(self) -> None:
        if self._schedstat >= 0:
            os.close(self._schedstat)
            self._schedstat = -1

    def tell(self, event: int, what: Any, number: int) -> None:
        """Record an event (`Observer.tell`)."""
        if event == _BEGINS:
            if number == _TASK:
                self._check_wait(cast(Entry, what))
            label = self._label_of(cast(Entry, what), number)
            if self._is_first:  # since the wait, which ended just now
                self._is_first = False
                self.ring.add(_BEGIN, number, label, identity(what))
            else:
                self.ring.put(_BEGIN, number, label, identity(what))
        elif event == _ENDS:
            if number == _TASK:
                self._end_step(cast(Entry, what))
            elif self.counts_connections and number in (_IO, _FLUSH):
                self._slowly(_COUNT_CONNECTION, what)
        elif event == _QUEUED:
            self._queued(cast(Entry, what), number)
        elif event == _WAIT_BEGINS:
            self.ring.put(_WAIT, number, 0, 0)
            self._ticks += 1
            if self.ring.steps > self._longest_steps:
                self._slow_ticks += 1
            if self.ring.steps > self._long_tick_steps:
                self._slowly(_MEASURE, None)
        elif event == _WAIT_ENDS:
            self._tick(number)
        elif event == _DUE:
            self.ring.add(_DUE_RECORD, 0, 0, max(self._now_ns - number, 0))

    def _queued(self, entry: Entry, source: int) -> None:
        kind = _POST if source == _THREADSAFE else _WAKE
        label = 0
        if self.has_later and source == _THREADSAFE:
            self._slowly(_WRITE_LATER, None)  # the job before the post that it has made
        if source == _TASK:
            if entry._get_label() >> 16 != self._generation and entry._is_new() and not self._slowly(_HAS_BEGUN, entry):
                kind = _SPAWN
            label = self._label_of(entry, source)
        self.ring.add(kind, source, label, identity(entry))

    def _label_of(self, entry: Entry, source: int) -> int:
        if source == _TASK:
            if entry._get_label() >> 16 != self._generation:
                self._slowly(_NAME_TASK, entry)
            return entry._get_label() & 0xFFFF
        work = entry._work()
        address = address_of_code(work)
        kept = self._kept_labels[address >> 4 & _KEPT_MASK]
        return kept & 0xFFFF if address and kept >> 16 == address & _ADDRESS else self._slowly(_LABEL, work)

    def _slowly(self, part: int, subject: Any) -> int:
        """Do a part that calls Python, and so may fail: name a task, record its site, measure, or return a label."""
        try:
            if part == _NAME_TASK:
                self._name(subject)
            elif part == _HAS_BEGUN:
                return self._has_begun(subject)
            elif part == _SHOW_SITE:
                self._record_site(subject)
            elif part == _MEASURE:
                self._measure()
            elif part == _WRITE_LATER:
                self._write_later()
            elif part == _COUNT_CONNECTION:
                self._count_connection(subject)
            elif part == _SHOW_GIL_WAIT:
                self._record_gil_wait()
            else:
                return self._label_of_work(subject)
        except BaseException as exc:
            self.failure = exc
        return 0

    def _label_of_work(self, work: Any) -> int:
        return self._label_at(address_of_code(work), work)

    def _label_at(self, address: int, work: Any) -> int:
        """Return the label of `work`, whose code is at `address`; keep it there, unless that is 0."""
        kept = self._kept_labels[address >> 4 & _KEPT_MASK]
        if address and kept >> 16 == address & _ADDRESS:
            return int(kept & 0xFFFF)
        label = int(self.labels.of(work))
        if address and self.labels.keeps:
            self._kept_labels[address >> 4 & _KEPT_MASK] = (address & _ADDRESS) << 16 | label
        return label

    def _name(self, task: Entry) -> None:
        coro = task._work()
        try:
            code = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None) or type(coro)
        except Exception:  # a coroutine of another kind, which raises on every attribute access
            code = type(coro)
        task._set_label(self._generation << 16 | self._label_at(identity(code), code))
        name = task._given_name()
        if name is not None:
            label = self.labels.of_name(name)
            if label:
                self.ring.add(_NAME, 0, label, identity(task))

    def _has_begun(self, task: Entry) -> bool:
        """Return whether `task` is older than the recording and comes from a bare yield."""
        coro = task._work()
        try:
            return bool(getattr(coro, "cr_suspended", False) or getattr(coro, "gi_suspended", False))
        except Exception:  # as in _name
            return False

    def _end_step(self, task: Entry) -> None:
        number = identity(task) >> 4
        ending = task._ending()
        if ending == 0:
            self._suspended[number & _SUSPENDED_MASK] = (number & _LOW) << 32 | self._now_ms
        else:
            self._suspended[number & _SUSPENDED_MASK] = 0  # another task may get its identity
            self.ring.add(_DONE, ending, 0, identity(task))

    def _check_wait(self, task: Entry) -> None:
        number = identity(task) >> 4
        last = self._suspended[number & _SUSPENDED_MASK]
        was_long = last >> 32 == number & _LOW and self._now_ms - (last & _LOW) >= _LONG_WAIT_MS
        if was_long:
            if self._sites_at != self._now_ms:
                self._sites_at = self._now_ms
                self._sites_left = SITES
            if self._sites_left > 0:
                self._sites_left -= 1
                self._slowly(_SHOW_SITE, task)

    def _record_site(self, task: Entry) -> None:
        for place in coroutine_stack(task._work()):
            label = self.labels.of_line(place.function, place.file, place.line)
            self.ring.add(_SITE, 0, label, identity(task))

    def _tick(self, events: int) -> None:
        now = monotonic_ns()
        self._now_ns = now
        self._now_ms = now // 1_000_000 & _LOW
        self._is_first = True
        if self._port is not None and self._port.gil_steps > self._gil_wait_steps:
            self._slowly(_SHOW_GIL_WAIT, None)
        self.ring.tick(min(events, _MOST_EVENTS), now)
        if now - self._measured_at >= _MEASURE_EVERY_NS:
            self._measured_at = now
            self._slowly(_MEASURE, None)
        if self.has_later:
            self._slowly(_WRITE_LATER, None)

    def _measure(self) -> None:
        self._note_totals()
        ns_per_step = self.ns_per_step()
        self._long_tick_steps = int(LONG_TICK_NS / ns_per_step)
        self._gil_wait_steps = int(SHORTEST_GIL_WAIT_NS / ns_per_step)
        if self._check_delay is not None:
            self._longest_steps = int(self._longest_ns / ns_per_step)
            if self._ticks >= TICKS_TO_CHECK:
                slow, ticks, self._slow_ticks, self._ticks = self._slow_ticks, self._ticks, 0, 0
                self._check_delay(slow, ticks)
        if self._schedstat >= 0:
            try:
                delay = int(os.pread(self._schedstat, 64, 0).split()[1])
            except (OSError, ValueError, IndexError):  # the thread has ended, or the program has closed the descriptor
                self._schedstat = -1
                return
            self.ring.add(_CPU, 0, 0, thread_cpu_ns())
            self.ring.add(_RUN_QUEUE, 0, 0, delay)

    def _record_gil_wait(self) -> None:
        if self._port is not None:
            steps: int = self._port.gil_steps
            self._port.gil_steps = 0
            self.ring.put(_GIL, 0, 0, int(steps * self.ns_per_step()))

    def _count_connection(self, entry: Any) -> None:
        # A transport runs to send. Its driver, or that one's MultishotReceiver, runs to receive. Once it is closed, a
        # driver has no sink, and a receiver no driver.
        driver = getattr(entry, "_driver", entry)
        transport = getattr(driver, "sink", entry)
        if transport is None or id(transport) not in self._connections:
            return
        if transport is entry:
            self._note_sent(transport)
            return
        if driver is not entry:  # over a completion port, whose sends end unnoticed: before this receive
            self._note_sent(transport)
        self._note_received(transport, not driver.reading)
        self._note_sent(transport)

    def _note_received(self, transport: Any, may_be_end: bool) -> None:
        received, sent = self._connections[id(transport)]
        now = transport.get_extra_info("loopcore.bytes")[0]
        if may_be_end or now > received:
            self._connections[id(transport)] = (now, sent)
            self._note_count(_RECEIVED_BY, now - received, id(transport))

    def _note_sent(self, transport: Any) -> None:
        received, sent = self._connections[id(transport)]
        now = transport.get_extra_info("loopcore.bytes")[1]
        if now > sent:
            self._connections[id(transport)] = (received, now)
            self._note_count(_SENT_BY, now - sent, id(transport))

    def _note_count(self, kind: int, count: int, who: int) -> None:
        while count > _MOST_BYTES:
            self.ring.put(kind, _MOST_BYTES >> 16, _MOST_BYTES & 0xFFFF, who)
            count -= _MOST_BYTES
        self.ring.put(kind, count >> 16, count & 0xFFFF, who)

    def _write_later(self) -> None:
        self.has_later = False
        while self._later:
            self._later.popleft()()

    def _note_totals(self) -> None:
        counters = self._loop.counters()
        for kind, value in (
            (_RECEIVED, counters.bytes_received),
            (_SENT, counters.bytes_sent),
            (_ACCEPTED, counters.connections_accepted),
        ):
            before = self._counted.get(kind, value)
            self._counted[kind] = value
            if value != before:
                self.ring.add(kind, 0, 0, value - before)
