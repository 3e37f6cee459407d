"""The readiness table: the readers and writers to run when a descriptor is ready.

One entry per descriptor, with a reader and a writer, either of which may be absent; the backend gets the union of both
interests, and only when that changes. This is the only caller of `register`, `modify` and `unregister`.

Stale events: the events of a tick are collected at one moment and dispatched one by one, and a callback in
between may replace a reader, or close a descriptor and open another with the same number. An entry therefore
remembers the ticks in which its reader and its writer were registered, and an event collected in such a tick is not
delivered to the new one. No event is lost, because readiness is level-triggered: the next wait reports it again.

Kept registrations: a program that calls `sock_recv` in a loop stops to read and starts again within a tick or two. So a
reader may be removed by `keep_reader`: the backend keeps the registration, and the owner, a socket, resumes it by
`resume_reader`. Another caller that registers the same number finds it unregistered first, and a registration that is
not resumed within a few calls of `sweep`, one a tick, is unregistered. Registrations are kept only if changing them
costs the backend something (`keeps`). A completion port sets the interest to 0 meanwhile (`parks`): an operation in
flight holds a file that the program may close.
docs/adr/0008-readiness-closing-and-reentrant-calls.md
"""

import weakref
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.runnable import Runnable
from loopcore.ports.interest import READ, WRITE

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from loopcore.kernel.completions import Polls
    from loopcore.ports.readiness import ReadinessBackend

SWEEPS_KEPT: Final = 5
"""How many sweeps a registration is kept for. A woken task resumes it in the next tick; a task that awaits
`asyncio.wait_for` of Python 3.11, which makes a task for each operation, in the fourth."""
_SWEEPS_KEPT = SWEEPS_KEPT
_READ, _WRITE = READ, WRITE

_KEPT = 1
_DRAINED = 2


class Registration:
    """One descriptor's entry: its reader and its writer, the ticks of their registration, and the owner."""

    __slots__ = ("reader", "writer", "reader_tick", "writer_tick", "fileobj", "_kept", "_kept_sweep", "_owner")

    def __init__(self) -> None:
        self.reader: Runnable | None = None
        self.writer: Runnable | None = None
        self.reader_tick: int = 0
        self.writer_tick: int = 0
        self.fileobj: object = None
        """The socket or file that was given in place of a number, if any."""
        self._kept: int = 0
        """Whether the backend still watches for a removed reader; `_DRAINED` if that reader had read all there was."""
        self._kept_sweep: int = 0
        self._owner: Any = None
        """A weak reference to the socket that the registration was last kept for."""


class Readiness:
    """The table of a loop. Thread: the loop's own."""

    __slots__ = ("tick", "changed", "keeps", "parks", "_backend", "_table", "_kept", "_sweeps")

    def __init__(self, backend: "ReadinessBackend | Polls") -> None:
        self.tick: int = 0
        """How many waits have returned, counted by the poller.

        A tick that skips its poll leaves it unchanged: events deferred to it reach no registration made since their
        wait.
        """
        self.changed: bool = False
        """Whether a registration changed since the last wait: the next tick must poll. Cleared by the poller."""
        self.keeps: bool = False
        """Whether `keep_reader` keeps registrations; otherwise it does the same as `clear_reader`."""
        self.parks: bool = False
        """Whether the interest is set to 0 while a registration is kept."""
        self._backend: ReadinessBackend | Polls = backend
        """Only Polls know an interest of 0."""
        self._table: dict[int, Registration] = {}
        self._kept: list[int] = []
        """Descriptors that may have a kept registration; one may occur twice, or may not have one any more."""
        self._sweeps: int = 0

    def is_used(self) -> bool:
        """Return whether any descriptor is watched."""
        return bool(self._table)

    def set_reader(self, fd: int, runnable: Runnable) -> Runnable | None:
        """Run `runnable` whenever `fd` is readable; return the reader that it replaces.

        Raises what the backend's `register` raises; the table is unchanged then.
        """
        entry = self._entry(fd, _READ)
        previous = entry.reader
        entry.reader = runnable
        entry.reader_tick = self.tick
        return previous

    def set_writer(self, fd: int, runnable: Runnable) -> Runnable | None:
        """Run `runnable` whenever `fd` is writable; return the writer that it replaces. Raises as `set_reader`."""
        entry = self._entry(fd, _WRITE)
        previous = entry.writer
        entry.writer = runnable
        entry.writer_tick = self.tick
        return previous

    def clear_reader(self, fd: int) -> Runnable | None:
        """Stop watching `fd` for reading; return the previous reader, or None."""
        entry = self._table.get(fd)
        if entry is None or entry.reader is None:
            return None
        previous = entry.reader
        entry.reader = None
        self._shrink(fd, _WRITE if entry.writer is not None else 0)
        return previous

    def clear_writer(self, fd: int) -> Runnable | None:
        """Stop watching `fd` for writing; return the previous writer, or None."""
        entry = self._table.get(fd)
        if entry is None or entry.writer is None:
            return None
        previous = entry.writer
        entry.writer = None
        self._shrink(fd, _READ if entry.reader is not None or entry._kept else 0)
        return previous

    # Kept registrations

    def keep_reader(self, fd: int, owner: "HasFileno", drained: bool) -> bool:
        """Stop watching `fd` for reading, as `clear_reader`, but keep the registration for `owner`.

        `drained` says that there is nothing to read now. If this returns True, `sweep` has to be called until it
        returns False.
        """
        entry = self._table.get(fd)
        if entry is None or entry.reader is None:
            return False
        if not self.keeps or (self.parks and entry.writer is not None):
            self.clear_reader(fd)
            return False
        if entry._owner is None or entry._owner() is not owner:
            try:
                entry._owner = weakref.ref(owner)
            except TypeError:  # an object that takes the place of a socket and has no weak references
                self.clear_reader(fd)
                return False
        if self.parks:
            self._backend.modify(fd, 0)
        self._kept.append(fd)
        entry.reader = None
        entry._kept = _DRAINED if drained else _KEPT
        entry._kept_sweep = self._sweeps
        return len(self._kept) == 1

    def is_drained(self, owner: "HasFileno") -> bool:
        """Return whether a registration is kept for the socket `owner` whose reader had read all there was."""
        if not self._kept:
            return False
        entry = self._table.get(owner.fileno())
        return entry is not None and entry._kept == _DRAINED and entry._owner() is owner

    def resume_reader(self, fd: int, owner: "HasFileno", runnable: Runnable) -> bool:
        """Run `runnable` whenever `fd` is readable, by the registration kept for `owner`; False if there is none."""
        entry = self._table.get(fd)
        if entry is None or not entry._kept or entry._owner() is not owner:
            return False
        self.changed = True
        if self.parks:
            self._backend.modify(fd, _READ)
        entry._kept = 0
        entry.reader = runnable
        entry.reader_tick = self.tick
        return True

    def sweep(self) -> bool:
        """Unregister what was kept long enough; return whether any is left. Thread: the loop's own, once a tick."""
        kept = self._kept
        if not kept:
            return False
        self._kept = []
        self._sweeps += 1
        for fd in kept:
            entry = self._table.get(fd)
            if entry is None or not entry._kept:
                continue
            if self._sweeps - entry._kept_sweep < _SWEEPS_KEPT:
                self._kept.append(fd)
            else:
                self._stop_keeping(fd, entry)
        return bool(self._kept)

    def _stop_keeping(self, fd: int, entry: Registration) -> None:
        entry._kept = 0
        entry._owner = None
        self._shrink(fd, _WRITE if entry.writer is not None else 0)

    def forget(self, fd: int) -> None:
        """Stop watching `fd` altogether; to be called before it is closed. Unknown descriptors are fine."""
        entry = self._table.get(fd)
        if entry is not None:
            self.changed = True
            del self._table[fd]
            # A dispatch may hold the entry, and be about to call the writer.
            entry.reader = None
            entry.writer = None
            self._backend.unregister(fd)

    def clear(self) -> None:
        """Forget all entries without calling the backend, which is being closed."""
        self._table.clear()

    def use(self, backend: "ReadinessBackend") -> None:
        """Use `backend` from now on; the previous one is closed."""
        self._backend = backend

    def register_all(self) -> None:
        """Register all entries with a new backend."""
        for fd in [*self._table]:
            entry = self._table.get(fd)
            if entry is None:
                continue  # a finalizer has closed its transport
            entry._kept = 0
            interest = (_READ if entry.reader is not None else 0) | (_WRITE if entry.writer is not None else 0)
            if not interest:
                del self._table[fd]
                continue
            try:
                self._backend.register(fd, interest)
            except OSError:
                del self._table[fd]  # closed by the program, and not unregistered yet

    def lookup(self, fd: int) -> Registration | None:
        """Return the entry of `fd`, or None. This tick's events are not for readers or writers registered in it."""
        return self._table.get(fd)

    def note_fileobj(self, fd: int, fileobj: object) -> None:
        """Remember that `fd`, which is watched, was given as `fileobj`, until it is unregistered."""
        entry = self._table.get(fd)
        if entry is not None:
            entry.fileobj = fileobj

    def find(self, fileobj: object) -> int | None:
        """Return the descriptor that was given as `fileobj`, which may be closed by now, or None. Linear search."""
        for fd in [*self._table]:
            entry = self._table.get(fd)
            if entry is not None and entry.fileobj is not None and entry.fileobj is fileobj:
                return fd
        return None

    def watched(self) -> list[int]:
        """Return the descriptors that have a reader or a writer."""
        entries = [(fd, self._table.get(fd)) for fd in [*self._table]]
        return [
            fd for fd, entry in entries if entry is not None and (entry.reader is not None or entry.writer is not None)
        ]

    def _entry(self, fd: int, interest: int) -> Registration:
        self.changed = True
        entry = self._table.get(fd)
        if entry is not None and entry._kept:
            # The number may belong to another file by now.
            self._stop_keeping(fd, entry)
            entry = self._table.get(fd)
        if entry is None:
            entry = Registration()
            self._backend.register(fd, interest)
            try:
                self._table[fd] = entry
            except MemoryError:
                self._table.pop(fd, None)
                self._backend.unregister(fd)  # an entry that is not in the table would never be unregistered
                raise
            return entry
        wanted = interest
        if entry.reader is not None:
            wanted |= _READ
        if entry.writer is not None:
            wanted |= _WRITE
        if (entry.reader if interest == _READ else entry.writer) is None:
            self._backend.modify(fd, wanted)
        return entry

    def _shrink(self, fd: int, interest: int) -> None:
        self.changed = True
        if interest:
            try:
                self._backend.modify(fd, interest)
            except OSError:
                pass  # the descriptor was closed meanwhile: no event is reported for it, and it can be unregistered
        else:
            del self._table[fd]
            self._backend.unregister(fd)
