"""The readiness table: who wants to know that a descriptor is ready.

One entry a descriptor, with a reader and a writer, either of which may be absent; the backend is told the
union of both, and only when that changes. This is the only caller of `register`, `modify` and `unregister`.

Stale events: the events of a tick are collected at one moment and dispatched one by one, and a callback in
between may replace a reader, or close a descriptor and open another with the same number. An entry therefore
remembers the ticks in which its reader and its writer came, and an event collected in such a tick is not for the
newcomer. Nothing is lost, because readiness is level-triggered: the next wait reports it again.
"""

from typing import Protocol

from loopcore.interest import READ, WRITE
from loopcore.kernel.runnable import Runnable


class Registrar(Protocol):
    """What the table tells of its changes: a ReadinessBackend, or the Polls of a completion port."""

    def register(self, fd: int, interest: int) -> None: ...

    def modify(self, fd: int, interest: int) -> None: ...

    def unregister(self, fd: int) -> None: ...


class Registration:
    """One descriptor's entry: its reader and its writer, the ticks they came in, and whose descriptor it is."""

    __slots__ = ("reader", "writer", "reader_tick", "writer_tick", "fileobj")

    def __init__(self) -> None:
        self.reader: Runnable | None = None
        self.writer: Runnable | None = None
        self.reader_tick: int = 0
        self.writer_tick: int = 0
        self.fileobj: object = None
        """The socket or file that was given instead of a number, if one was."""


class Readiness:
    """The table of a loop. Thread: the loop's own."""

    __slots__ = ("tick", "_backend", "_table")

    def __init__(self, backend: Registrar) -> None:
        self.tick: int = 0
        """Number of the current tick, counted when its wait returns; kept by the reactor."""
        self._backend: Registrar = backend
        self._table: dict[int, Registration] = {}

    def __len__(self) -> int:
        return len(self._table)

    def set_reader(self, fd: int, runnable: Runnable) -> Runnable | None:
        """Run `runnable` whenever `fd` is readable; return whom it replaces.

        Raises what the backend's `register` raises; the table is unchanged then.
        """
        entry = self._entry(fd, READ)
        previous = entry.reader
        entry.reader = runnable
        entry.reader_tick = self.tick
        return previous

    def set_writer(self, fd: int, runnable: Runnable) -> Runnable | None:
        """Run `runnable` whenever `fd` is writable; return whom it replaces. Raises as `set_reader`."""
        entry = self._entry(fd, WRITE)
        previous = entry.writer
        entry.writer = runnable
        entry.writer_tick = self.tick
        return previous

    def clear_reader(self, fd: int) -> Runnable | None:
        """Stop watching `fd` for reading; return who did, or None."""
        entry = self._table.get(fd)
        if entry is None or entry.reader is None:
            return None
        previous = entry.reader
        entry.reader = None
        self._shrink(fd, WRITE if entry.writer is not None else 0)
        return previous

    def clear_writer(self, fd: int) -> Runnable | None:
        """Stop watching `fd` for writing; return who did, or None."""
        entry = self._table.get(fd)
        if entry is None or entry.writer is None:
            return None
        previous = entry.writer
        entry.writer = None
        self._shrink(fd, READ if entry.reader is not None else 0)
        return previous

    def forget(self, fd: int) -> None:
        """Stop watching `fd` altogether; to be called before it is closed. Unknown descriptors are fine."""
        entry = self._table.pop(fd, None)
        if entry is not None:
            # The entry may be in the hands of a dispatch that is about to call the writer.
            entry.reader = None
            entry.writer = None
            self._backend.unregister(fd)

    def clear(self) -> None:
        """Forget everything without telling the backend, which is being closed."""
        self._table.clear()

    def use(self, backend: Registrar) -> None:
        """Tell `backend` from now on; the one before is closed."""
        self._backend = backend

    def register_all(self) -> None:
        """Register everything with a backend that knows nothing yet."""
        for fd, entry in list(self._table.items()):
            reading = READ if entry.reader is not None else 0
            try:
                self._backend.register(fd, reading | (WRITE if entry.writer is not None else 0))
            except OSError:
                del self._table[fd]  # closed by somebody else, and not unregistered yet

    def lookup(self, fd: int) -> Registration | None:
        """Return the entry of `fd`, or None. An event of the current tick is not for those who came in this tick."""
        return self._table.get(fd)

    def note_fileobj(self, fd: int, fileobj: object) -> None:
        """Remember that `fd`, which is watched, was given as `fileobj`; until it is watched no more."""
        entry = self._table.get(fd)
        if entry is not None:
            entry.fileobj = fileobj

    def find(self, fileobj: object) -> int | None:
        """Return the descriptor that was given as `fileobj`, which may be closed by now, or None. Looks at all."""
        for fd, entry in self._table.items():
            if entry.fileobj is fileobj:
                return fd
        return None

    def watched(self) -> list[int]:
        """Return the descriptors in the table."""
        return list(self._table)

    def _entry(self, fd: int, interest: int) -> Registration:
        entry = self._table.get(fd)
        if entry is None:
            self._backend.register(fd, interest)
            entry = Registration()
            self._table[fd] = entry
            return entry
        wanted = interest
        if entry.reader is not None:
            wanted |= READ
        if entry.writer is not None:
            wanted |= WRITE
        if (entry.reader if interest == READ else entry.writer) is None:
            self._backend.modify(fd, wanted)
        return entry

    def _shrink(self, fd: int, interest: int) -> None:
        if interest:
            try:
                self._backend.modify(fd, interest)
            except OSError:
                pass  # the descriptor was closed meanwhile: nothing more is reported for it, and it can be unregistered
        else:
            del self._table[fd]
            self._backend.unregister(fd)
