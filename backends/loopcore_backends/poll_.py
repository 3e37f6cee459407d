"""poll(2): one system call that takes the whole list of descriptors each time, on every Unix.

The cost of a wait grows with the number of registrations, idle ones included; numbers of any size are
fine, and so are regular files, which are always ready. The list lives in a `select.poll` object and is keyed by
number alone: a registered descriptor that was closed is reported as POLLNVAL, which becomes ERROR, and a number
that was reused watches the new file. Both come from the mistake of closing before unregistering.

Facts: poll(2). Threads: see `loopcore.ports.readiness`.
"""

import os
import select
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, NoReturn

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.readiness import Capability, ProbeResult, ReadyEvent
from loopcore_backends import _refusals
from loopcore_backends._waker import FlaggedWaker

LONGEST_MS: Final = 2**31 - 1
"""The longest time that poll's int of milliseconds can hold: 24 days. A longer wait ends then, with no event."""

EVERY_BIT: Final = READ | WRITE | ERROR | HANGUP


# From poll's bits to ours. Empty where there is no poll(2), so that the module can be imported anywhere.
BITS: Final[dict[int, int]] = (
    {
        select.POLLIN: READ,
        select.POLLOUT: WRITE,
        select.POLLERR: ERROR,
        select.POLLHUP: HANGUP,
        select.POLLNVAL: ERROR,
    }
    if hasattr(select, "poll")
    else {}
)

# Decided once: POSIX leaves the values open, but nearly all systems agree, and then events pass
# unchanged. POLLNVAL has no bit of ours and must be distinct from all of them.
SAME_BITS: Final = list(BITS)[:4] == [READ, WRITE, ERROR, HANGUP] and max(BITS) > EVERY_BIT


def to_poll(interest: int) -> int:
    """Translate our bits into poll's."""
    if SAME_BITS:
        return interest
    return (select.POLLIN if interest & READ else 0) | (select.POLLOUT if interest & WRITE else 0)


def from_poll(bits: int) -> int:
    """Translate poll's bits into ours."""
    interest = 0
    for theirs, ours in BITS.items():
        if bits & theirs:
            interest |= ours
    return interest


class PollBackend:
    """Readiness from poll(2)."""

    name: str = "poll"
    capabilities: frozenset[Capability] = frozenset({Capability.LARGE_DESCRIPTORS, Capability.REGULAR_FILES})
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        if hasattr(select, "poll"):
            return ProbeResult(True)
        return ProbeResult(False, "this platform has no poll(2); use select")

    def __init__(self) -> None:
        self._waker = FlaggedWaker()
        self._registered: set[int] = set()
        self._list = select.poll()
        self._list.register(self._waker.fd, select.POLLIN)
        self._poll: Callable[[float | None], list[ReadyEvent]] = self._list.poll

    def register(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd in self._registered:
            raise _refusals.registered_already(fd)
        if fd < 0:
            raise _refusals.not_a_number_of_files(fd)
        try:
            # select.poll only notes the number; by the contract a closed one is refused here.
            os.get_inheritable(fd)
        except OverflowError:
            raise _refusals.not_a_number_of_files(fd) from None
        self._list.register(fd, to_poll(interest))
        self._registered.add(fd)

    def modify(self, fd: int, interest: int) -> None:
        self._must_be_open()
        if fd not in self._registered:
            raise self._unknown(fd)
        self._list.modify(fd, to_poll(interest))

    def unregister(self, fd: int) -> None:
        self._must_be_open()
        try:
            self._registered.remove(fd)
        except KeyError:
            raise self._unknown(fd) from None
        self._list.unregister(fd)
        self._waker.disturb()

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        waker = self._waker
        waker.waiting = True
        try:
            # CPython's select.poll.poll rounds up to whole milliseconds itself, PyPy's rounds down.
            events = self._poll(None if timeout is None else ceil(timeout * 1000.0))
        except OverflowError:
            events = self._poll(LONGEST_MS)
        finally:
            waker.waiting = False
            if waker.closed:  # during the wait, by a finalizer or another thread
                waker.close()
        # The waker is the first of the list, and readable a moment before the waking thread raises its flag.
        if waker.raised or (events and events[0][0] == waker.fd):
            self._must_be_open()
            waker.absorb()
            events = [event for event in events if event[0] in self._registered]
        for _, bits in events:
            if bits > EVERY_BIT or not SAME_BITS:
                return [(fd, from_poll(bits)) for fd, bits in events]
        return events

    def wake(self) -> None:
        self._waker.wake()

    def close(self) -> None:
        self._poll = _refuse  # first: a wait that begins after the next line could not be woken
        self._waker.close()
        self._registered.clear()

    def _unknown(self, fd: int) -> Exception:
        return _refusals.closed(self.name) if self._waker.closed else _refusals.not_registered(fd)

    def _must_be_open(self) -> None:
        if self._waker.closed:
            raise _refusals.closed(self.name)


def _refuse(timeout: float | None) -> NoReturn:
    raise _refusals.closed("poll")
