"""The registry: the loops of this process that are being measured, by name. Thread: any.

It does not keep a loop alive: a loop that is dropped without being closed is collected as without the plugin.
"""

import os
import threading
import weakref
from itertools import chain, count
from typing import Any

from loopcore_plugins.metrics.record import LoopRecord
from loopcore_plugins.metrics.snapshot import LoopSnapshot

_lock = threading.RLock()
_records: weakref.WeakValueDictionary[str, LoopRecord] = weakref.WeakValueDictionary()


def enter(loop: Any, name: str, window: float) -> LoopRecord:
    """Start measuring `loop`, under `name`, or with a number appended while another loop has that name.

    Names are reused: a program that makes a loop for each request has one time series, not thousands.
    """
    with _lock:
        free = next(each for each in chain([name], (f"{name}-{n}" for n in count(2))) if each not in _records)
        record = _records[free] = LoopRecord(loop, free, window)
        return record


def leave(record: LoopRecord) -> None:
    """Stop measuring a loop. Idempotent."""
    with _lock:
        if _records.get(record.name) is record:
            del _records[record.name]


def snapshots() -> list[LoopSnapshot]:
    """Return a snapshot of each loop of this process that has the plugin and is not closed, by name. Thread: any."""
    with _lock:
        records = sorted(_records.items())
    return [record.snapshot() for _, record in records]


def _reset_in_child() -> None:
    """Reset in a forked child: the loops are the parent's, and the locks may be held."""
    global _lock
    _lock = threading.RLock()
    for record in _records.values():
        record.in_child()
    _records.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
