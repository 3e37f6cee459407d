"""History: what a ring still has of one task, read while the loop goes on writing."""

import struct
import time
from typing import TYPE_CHECKING, Any

from loopcore_plugins.recorder.layout import HEADER, RECORD, Kind, Outcome, Word

if TYPE_CHECKING:
    from loopcore_plugins.recorder.tape import Tape

FARTHEST = 10_000
"""Records that are looked through for the tick to which a record belongs."""

_WORDS = {
    Kind.BEGIN: "runs",
    Kind.DONE: "done",
    Kind.WAKE: "woken",
    Kind.SPAWN: "spawned",
    Kind.SITE: "was suspended in",
}


def history(tape: "Tape", who: int, limit: int) -> list[dict[str, Any]]:
    """Return the newest `limit` records of the task `who`, oldest first: when, what, and which code. Thread: any."""
    content = bytes(tape.ring.memory)
    capacity, written = (_word(content, word) for word in (Word.CAPACITY, Word.WRITTEN))
    wanted, ns_per_step = struct.pack("<Q", who), tape.ns_per_step()
    found: list[dict[str, Any]] = []
    latest = time.monotonic_ns()  # of the records that follow: how long a step is, is known only roughly
    for number in range(written - 1, max(written - capacity, 0) - 1, -1):
        at = HEADER + number % capacity * RECORD
        if content[at + 8 : at + 16] != wanted or content[at] not in _WORDS:
            continue
        first = int.from_bytes(content[at : at + 8], "little")
        kind = Kind(first & 0xFF)
        what = Outcome(first >> 8 & 0xFF).name.lower() if kind is Kind.DONE else _WORDS[kind]
        when = min(_time(content, number, capacity, first >> 32, ns_per_step), latest)
        latest = when or latest
        found.append({"at_ns": when, "what": what, "code": tape.labels.text(first >> 16 & 0xFFFF)})
        if len(found) == limit:
            break
    return found[::-1]


def _word(content: bytes, word: int) -> int:
    return int.from_bytes(content[8 * word : 8 * word + 8], "little")


def _time(content: bytes, number: int, capacity: int, steps: int, ns_per_step: float) -> int:
    """Return the time of a record, from the tick before it; 0 if there is none near."""
    for earlier in range(number, max(number - FARTHEST, 0) - 1, -1):
        at = HEADER + earlier % capacity * RECORD
        if content[at] == Kind.TICK:
            return int.from_bytes(content[at + 8 : at + 16], "little") + int(steps * ns_per_step)
    return 0
