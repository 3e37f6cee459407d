"""The phases of a tick, in order, and the callbacks that a program may attach to three of them.

docs/reference/tick.md describes what each phase does and which order follows from it.
"""

from typing import Any, Final, Literal, Protocol, TypeAlias

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
OpenPhase: TypeAlias = Literal["idle", "prepare", "check"]
OPEN_PHASES: Final = (IDLE, PREPARE, CHECK)
"""The phases to which a program can add callbacks."""

NO_EVENTS: Final[list[tuple[Any, ...]]] = []
"""The events of a tick that did not wait; never changed."""


class Closeable(Protocol):
    """An object that the close phase closes: a socket, a file, anything with `close`."""

    def close(self) -> object: ...


class PhaseCallbacks:
    """Callbacks that run in every tick, by phase, until their handle is cancelled; or once.

    As in libuv they do not keep the loop awake, with one exception: an idle callback makes the tick poll with a
    timeout of zero, so it is called again and again while the loop runs.
    """

    __slots__ = ("_by_phase",)

    def __init__(self) -> None:
        self._by_phase: dict[str, list[tuple[Handle, bool]]] = {}
        """The handles of each phase that has any, and whether each runs once."""

    def __bool__(self) -> bool:
        return bool(self._by_phase)

    def add(self, phase: str, handle: Handle, once: bool = False) -> None:
        """Run `handle` in `phase` of every tick, or `once`. Raises ValueError for a phase without callbacks."""
        if phase not in OPEN_PHASES:
            raise ValueError(f"callbacks can be attached to the phases {', '.join(OPEN_PHASES)}, not to {phase!r}")
        self._by_phase.setdefault(phase, []).append((handle, once))

    def has(self, phase: str) -> bool:
        """Return whether `phase` has a callback that is not cancelled, including one that runs once."""
        return not all(handle.cancelled() for handle, _ in self._by_phase.get(phase, ()))

    def live(self, phase: str) -> list[tuple[Handle, bool]]:
        """Return the entries of `phase` in the order of registration; drop those that were cancelled or run once."""
        live = [entry for entry in self._by_phase.get(phase, ()) if not entry[0].cancelled()]
        kept = [entry for entry in live if not entry[1]]
        if kept:
            self._by_phase[phase] = kept
        else:
            self._by_phase.pop(phase, None)
        return live

    def keep(self, phase: str, entries: list[tuple[Handle, bool]]) -> None:
        """Put those of `entries` that run once in front: `live` has dropped them, and their turn did not come."""
        missed = [entry for entry in entries if entry[1]]
        if missed:
            self._by_phase[phase] = missed + self._by_phase.get(phase, [])

    def clear(self) -> None:
        """Forget everything."""
        self._by_phase.clear()
