"""Ring: the newest records, in memory that is allocated once.

A record is two stores and a counter; nothing is allocated, and nothing calls Python. So a signal handler, a finalizer
or a failed allocation cannot come between the two words of a record, compiled. Interpreted, a record may be torn, which
the reader recognises. Thread: the loop's own.
"""

import os
import threading
import time
from typing import Any

from loopcore_plugins.recorder import layout
from loopcore_plugins.recorder.layout import HEADER, LONGEST, RECORD, Kind, Word

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.recording import counter, words
else:
    from loopcore._native.recording import counter, words

LABELS_SIZE = 1 << 20

_FIRST = HEADER // 8
_LONGEST = LONGEST
_TICK = int(Kind.TICK)
_WRITTEN = int(Word.WRITTEN)


def size_of(capacity: int) -> int:
    """Return the bytes of a ring of `capacity` records, with header and labels."""
    return HEADER + capacity * RECORD + LABELS_SIZE


class Ring:
    """Writes the records into `memory`, `size_of(capacity)` bytes that begin as zeros. `capacity` is a power of two."""

    __slots__ = ("_memory", "_words", "_mask", "_written", "_base", "steps")

    def __init__(self, memory: Any, capacity: int) -> None:
        self._memory: Any = memory
        self._words: Any = words(memory)
        self._mask: int = capacity - 1
        self._written: int = 0
        self._base: int = counter()
        self.steps: int = 0
        """Steps of the counter since the last `tick`, at the last `put`."""
        header = {
            Word.MAGIC: layout.MAGIC,
            Word.VERSION: layout.VERSION,
            Word.PID: os.getpid(),
            Word.CAPACITY: capacity,
            Word.LABELS_AT: HEADER + capacity * RECORD,
            Word.LABELS_SIZE: LABELS_SIZE,
            Word.WALL_NS: time.time_ns(),
            Word.MONOTONIC_NS: time.monotonic_ns(),
            Word.THREAD: threading.get_native_id(),
        }
        for word, value in header.items():
            self.set_word(word, value)

    @property
    def memory(self) -> Any:
        """The memory with header, records and labels."""
        return self._memory

    def set_word(self, word: int, value: int) -> None:
        """Set a word of the header."""
        self._words[word] = value

    def put(self, kind: int, argument: int, label: int, who: int) -> None:
        """Write a record (see `layout`), with the steps of the counter since the last `tick` as its time."""
        now = counter()
        self.steps = min(now - self._base, _LONGEST) if now > self._base else 0  # processors may differ by a step
        self.add(kind, argument, label, who)

    def add(self, kind: int, argument: int, label: int, who: int) -> None:
        """Write a record with the time of the last `put` or `tick`: reading the counter is most of the cost of one."""
        self._store(kind | argument << 8 | label << 16 | self.steps << 32, who)

    def tick(self, label: int, now_ns: int) -> None:
        """Write a TICK; later times count from it. `now_ns` is of CLOCK_MONOTONIC."""
        now = counter()
        steps = min(now - self._base, _LONGEST) if now > self._base else 0
        self._store(_TICK | label << 16 | steps << 32, now_ns)
        self._base = now
        self.steps = 0

    def _store(self, first: int, second: int) -> None:
        place = _FIRST + 2 * (self._written & self._mask)
        self._written += 1
        self._words[place] = first
        self._words[place + 1] = second
        self._words[_WRITTEN] = self._written
