"""The phases of a tick, in order, and the callbacks that a program may attach to three of them.

docs/reference/tick.md describes what each phase does and which order follows from it.
"""

from typing import Final

from loopcore.kernel.handle import Handle

IDLE: Final = "idle"
PREPARE: Final = "prepare"
POLL: Final = "poll"
PENDING: Final = "pending"
IO: Final = "io"
CHECK: Final = "check"
TIMERS: Final = "timers"
CLOSE: Final = "close"

PHASES: Final = (IDLE, PREPARE, POLL, PENDING, IO, CHECK, TIMERS, CLOSE)
OPEN_PHASES: Final = (IDLE, PREPARE, CHECK)
"""The phases that take callbacks of the program."""


class PhaseCallbacks:
    """Callbacks that run in every tick, by phase, until their handle is cancelled.

    As in libuv they keep nothing awake, with one exception: an idle callback makes the tick poll with a
    timeout of zero, so it is called again and again while the loop runs.
    """

    __slots__ = ("_by_phase",)

    def __init__(self) -> None:
        self._by_phase: dict[str, list[Handle]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_phase)

    def add(self, phase: str, handle: Handle) -> None:
        """Run `handle` in `phase` of every tick. Raises ValueError for a phase that takes none."""
        if phase not in OPEN_PHASES:
            raise ValueError(f"callbacks can be attached to the phases {', '.join(OPEN_PHASES)}, not to {phase!r}")
        self._by_phase.setdefault(phase, []).append(handle)

    def live(self, phase: str) -> list[Handle]:
        """Return the handles of `phase` in the order of registration; drop those that were cancelled."""
        handles = self._by_phase.get(phase)
        if handles is None:
            return []
        live = [handle for handle in handles if not handle.cancelled()]
        if live:
            self._by_phase[phase] = live
        else:
            del self._by_phase[phase]
        return list(live)

    def clear(self) -> None:
        """Forget everything."""
        self._by_phase.clear()
