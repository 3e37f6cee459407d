"""Things that go wrong on purpose."""

import errno as _errno
import os
from dataclasses import dataclass, field

from tests.backends.fake_kqueue.records import EV_ERROR, kevent


@dataclass
class Faults:
    """What is to go wrong in the kqueues of a test; each is spent when it has happened, `most_events` apart."""

    most_events: int | None = None
    """No call returns more events than this."""
    refusals: dict[tuple[int, int], int] = field(default_factory=dict)
    """The errno of the next change with this filter and these flags."""
    events: list[kevent] = field(default_factory=list)
    """Reported by the next wait, beside what is ready: spurious events, late ones, errors."""

    def refusal(self, change: kevent) -> OSError | None:
        number = self.refusals.pop((change.filter, change.flags), None)
        return None if number is None else OSError(number, os.strerror(number))

    def room(self, wanted: int) -> int:
        return wanted if self.most_events is None else min(wanted, self.most_events)

    def spontaneous(self) -> list[kevent]:
        events, self.events = self.events, []
        return events


def failed(change: kevent, exc: OSError | None) -> kevent:
    """Return the event that tells of a change: that it failed, or, without `exc`, that it was made (EV_RECEIPT)."""
    number = 0 if exc is None else exc.errno or _errno.EIO
    return kevent(change.ident, change.filter, change.flags | EV_ERROR, 0, number, change.udata)
