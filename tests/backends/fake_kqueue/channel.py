"""A channel: an epoll instance for the knotes of one filter, so that reading and writing are rows of their own.

epoll(7) is keyed by number and file, a kqueue by number: what epoll still reports of a number that was closed, since a
copy holds the file open, is a ghost; the instance is then made anew.
"""

import select
from collections.abc import Iterator

from tests.backends.fake_kqueue.descriptors import identify
from tests.backends.fake_kqueue.knotes import Knote


class Channel:
    """The rows of some knotes, keyed by the descriptor that Linux tells their state by."""

    def __init__(self) -> None:
        self._parent: select.epoll | None = None
        self._knotes: dict[int, Knote] = {}
        self._haunted = False
        self._open()

    def _open(self) -> None:
        self._epoll = select.epoll()
        if self._parent is not None:
            self._parent.register(self._epoll.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there may be something to poll; until the next poll."""
        return self._epoll.fileno()

    def nest(self, parent: select.epoll) -> None:
        """Have `parent` tell when there may be something to poll."""
        if self._parent is None:
            self._parent = parent
            parent.register(self._epoll.fileno(), select.EPOLLIN)

    def add(self, knote: Knote) -> None:
        """Watch for `knote`, again if it is known. Raises what epoll_ctl(2) does."""
        known = knote.source in self._knotes
        (self._epoll.modify if known else self._epoll.register)(knote.source, knote.row())
        self._knotes[knote.source] = knote

    def remove(self, knote: Knote) -> None:
        """Watch for `knote` no more."""
        if self._knotes.pop(knote.source, None) is not None:
            try:
                self._epoll.unregister(knote.source)
            except OSError:
                self._haunted = True  # perhaps; renewing now would take a number that was just freed

    def poll(self, limit: int) -> Iterator[tuple[Knote, int]]:
        """Return knotes whose file shows something, at most `limit`, in turn, with epoll's bits."""
        if self._haunted:
            self._renew()
        for source, bits in self._epoll.poll(0, limit):
            knote = self._knotes.get(source)
            if knote is not None and identify(source) == knote.identity:
                yield knote, bits
            else:
                self._haunted = True

    def _renew(self) -> None:
        self._haunted = False
        if self._parent is not None:
            self._parent.unregister(self._epoll.fileno())
        self._epoll.close()
        self._open()
        for source, knote in list(self._knotes.items()):
            if identify(source) == knote.identity:
                self._epoll.register(source, knote.row())
            else:
                del self._knotes[source]

    def close(self) -> None:
        self._epoll.close()
        self._knotes.clear()
