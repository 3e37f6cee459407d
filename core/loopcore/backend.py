"""The port: what a backend implements, and all it needs to know of core.

A backend waits for the operating system and does nothing else. It owns no timer, no callback and no
descriptor but its own. Core calls it from the loop's thread; `wake` may come from any, and so may what a finalizer asks
for, at any moment: `unregister` and `close`.

A backend is a class, published as an entry point in the group `loopcore.backends` under its name:

    [project.entry-points."loopcore.backends"]
    mine = "my_package:MineBackend"

It is made without arguments, once for each loop.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

BACKEND_API = (1, 0)
"""The version of this port. Minor steps only add; a major step may take away."""

ReadyEvent: TypeAlias = tuple[int, int]
"""A descriptor and what it is ready for, a union of the bits in `loopcore.interest`."""


class Capability(Enum):
    """What a backend can do beyond the port's guarantees; core and tests ask before they rely on it."""

    REGULAR_FILES = "regular_files"
    """A regular file can be registered (it is always ready); epoll(7) refuses it with EPERM."""

    LARGE_DESCRIPTORS = "large_descriptors"
    """Descriptors of any number can be registered; select(2) ends at FD_SETSIZE."""

    FLAT_COST = "flat_cost"
    """The price of a wait does not grow with the number of idle registrations."""

    FILES = "files"
    """A completion backend that knows Open, Sync, Stat and Close, and Read and Write at an offset."""

    PROCESSES = "processes"
    """A completion backend that knows WaitProcess."""

    HANDLES = "handles"
    """A completion backend of Windows that reads and writes pipes, which there are HANDLEs and cannot be watched."""

    SEND_FILE = "send_file"
    """A completion backend that knows SendFile."""

    CHEAP_POLLS = "cheap_polls"
    """A completion backend that is asked for a Poll without a system call of its own."""


class ProbeResult(NamedTuple):
    """Whether the backend can run here; `reason` says why not, or is empty."""

    available: bool
    reason: str = ""


class ReadinessBackend(Protocol):
    """A multiplexer that says which descriptors are ready.

    Guaranteed: events are level-triggered: a descriptor stays reported while it is ready and
    registered. A registration survives until `unregister`. Nothing is called back.
    `unregister` and `close` may be called in the middle of `wait`, by a finalizer, a signal handler or another thread:
    the collector runs in whichever thread allocates.
    Allowed: an event that turns out to be spurious; core tries, gets EAGAIN, and waits again.
    Errors of the operating system are plain `OSError`; any call after `close` except `close` and
    `wake` raises BackendClosedError.
    """

    name: str
    capabilities: frozenset[Capability]

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say whether this backend can run here, cheaply and without side effects.

        Raises UsageError for a setting of its own that means nothing: the user's mistake, which no list passes over.
        """
        ...

    def register(self, fd: int, interest: int) -> None:
        """Watch `fd` for `interest`, a union of READ and WRITE, not empty.

        Raises FileExistsError if `fd` is registered, OSError if it is no open descriptor,
        ValueError if the backend cannot take a number as large as this, and the text says which can.
        """
        ...

    def modify(self, fd: int, interest: int) -> None:
        """Replace the interest of a registered `fd`. Raises FileNotFoundError if it is not registered."""
        ...

    def unregister(self, fd: int) -> None:
        """Forget `fd`. Raises FileNotFoundError if it is not registered.

        Never fails for a registered descriptor that was closed meanwhile: the kernel may have
        forgotten it already.

        Thread: any, also in the middle of `wait`. The wait goes on for the others, or ends early as after a wake.
        It does not report `fd`, unless the event was on its way to the caller (core drops it), and does not keep
        the file open.
        """
        ...

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        """Block until something is ready, the timeout passes, or `wake` is called.

        `timeout` is in seconds; None waits without limit, 0.0 only looks. It is rounded up to what the
        system call can say, so that a wait never ends early and spins until the deadline. A signal
        whose Python handler returns does not end the wait (PEP 475); one whose handler raises does.

        Guaranteed: no descriptor twice. A wake shows as an early return, not as an event, except that a
        wake racing with the wait may leave an event for a descriptor core never registered; core drops it.
        """
        ...

    def wake(self) -> None:
        """Make the current or else the next `wait` return at once. Coalesces: n wakes may end one wait.

        Thread: any; also from a signal handler. After `close` it does nothing.
        """
        ...

    def close(self) -> None:
        """Release the backend's own descriptors; the registered ones belong to others. Idempotent.

        Thread: any, also in the middle of `wait`: that wait ends, with nothing or with BackendClosedError, and may
        keep what it stands on until it has ended.
        """
        ...


class BackendFactory(Protocol):
    """What an entry point or `register_backend` names: the class of a backend of either port, or alike.

    It may have a class method `details()`: short texts by name, that `loopcore info` shows of a backend which can run
    here: what it stands on, which features it uses, and why not the others.
    """

    def __call__(self) -> Any: ...

    def probe(self) -> ProbeResult: ...
