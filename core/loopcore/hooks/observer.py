"""Observer: what the loop calls without Python in between, so that it can stay on in production.

The hook `loopcore_make_observer` of a plugin returns an instance of a subclass of `Observer`. The loop calls that
instance for each event in `wants`. There are two ways to write the subclass:

- In Python it overrides `note`.
- Compiled (Cython, `cimport loopcore.hooks.observer`) it overrides `tell`, a C method, which the loop calls directly. A
  source that has to run interpreted as well also has a `note` that calls `tell`: a compiled loop does not find a `tell`
  in Python.

`loopcore new plugin` creates a project with an observer that runs compiled and interpreted.

The events, their arguments, and when they happen:

| event | what | number | when |
|---|---|---|---|
| `WAIT_BEGINS` | None | 1 if the wait may block, else 0 | before the backend's wait |
| `WAIT_ENDS` | None | number of events | after it |
| `TICK_BEGINS`, `TICK_ENDS` | None | 0 | around the phases after the wait |
| `QUEUED` | a handle, task or other entry | its source | it was put on a queue, or taken over from another thread |
| `BEGINS`, `ENDS` | the same | its source | around each callback and each step of a task |
| `DUE` | a timer's handle | how late it is, in ns of the loop's clock | a timer was found due |
| `POSTED` | a handle | 0 | another thread has posted it |

A source is an index of `loopcore.hooks.sources.SOURCES`. From Python 3.14 on the entry of a task is not the task but
its step; `get_coro` works on both. If a callback runs a tick itself, the events of that tick come between its `BEGINS`
and its `ENDS`. An observer may be registered in the middle of a callback, so that the first event it sees is an `ENDS`.

Compiled plugins contain the layout of the classes of this module and of their tables of C methods (`observer.pxd`). A
change of them is a breaking change: plugins have to be compiled again.
"""

from typing import Any, Final

WAIT_BEGINS: Final = 1
WAIT_ENDS: Final = 2
TICK_BEGINS: Final = 4
TICK_ENDS: Final = 8
QUEUED: Final = 16
BEGINS: Final = 32
ENDS: Final = 64
DUE: Final = 128
POSTED: Final = 256
ALL: Final = 511


RESULT: Final = 1
EXCEPTION: Final = 2
CANCELLED: Final = 3
"""How a task has ended (`Entry._ending`)."""


class Entry:
    """What a loop runs, as an observer receives it: a handle, a step of a task, one half of a transport.

    The methods are C functions, for compiled observers. Thread: the loop's own. A label is for one observer: a task has
    room for one number.
    """

    __slots__ = ()

    def _work(self) -> object:
        """Return whose code runs: a coroutine, a callback, or the class of a protocol."""
        return type(self)

    def _get_label(self) -> int:
        """Return the number that an observer has given to this task; 0 at first, and for all that is not a task."""
        return 0

    def _set_label(self, label: int) -> None:
        """Keep a number of 32 bits with this task."""

    def _ending(self) -> int:
        """Return how the task has ended; 0 if it has not, and for all that is not a task."""
        return 0

    def _is_new(self) -> bool:
        """Return whether no future woke the task, which was just queued: a first step, a bare yield, or an error."""
        return False

    def _given_name(self) -> str | None:
        """Return the name that the program gave to the task when it made it, or None."""
        return None


class Observer:
    """Base class of observers; see the module. An observer belongs to one loop."""

    __slots__ = ("wants", "failure")

    def __init__(self, wants: int = ALL) -> None:
        self.wants: int = wants
        """The events to receive, combined with `|`. Read when plugins are registered and removed."""
        self.failure: BaseException | None = None
        """The exception because of which the loop removes this observer after the event."""

    def tell(self, event: int, what: Any, number: int) -> None:
        """Called for an event. Thread: the loop's own; for `POSTED` the poster's.

        A compiled class overrides this. It must not raise: it sets `failure` instead.
        """
        try:
            self.note(event, what, number)
        except BaseException as exc:
            self.failure = exc

    def note(self, event: int, what: Any, number: int) -> None:
        """Called for an event, by `tell`.

        Must be quick, must not block, and must not keep `what` longer than it has to: the loop's entries are freed, and
        their identities used again, as soon as they have run. An observer that raises is logged and removed.
        """
