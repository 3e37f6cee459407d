"""The port: what a backend implements, and all it needs to know about core.

A backend waits for the operating system and does nothing else. It owns no timers, no callbacks, and no descriptors
but those it opened. Core calls it from the loop's thread. `wake` may be called from any thread; so may `unregister`
and `close`, at any moment, because finalizers call them.

A backend is a class, published under its name as an entry point in the group `loopcore.backends`:

    [project.entry-points."loopcore.backends"]
    mine = "my_package:MineBackend"

It is instantiated without arguments, once for each loop.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from loopcore.ports.completion import Backend

BACKEND_API = (1, 0)
"""The version of this port. A minor version only adds; a major version may remove."""

ReadyEvent: TypeAlias = tuple[int, int]
"""A descriptor and its readiness, a union of the bits in `loopcore.ports.interest`."""


class Capability(Enum):
    """A feature beyond the port's guarantees; core and tests check for it before they rely on it."""

    REGULAR_FILES = "regular_files"
    """A regular file can be registered (it is always ready); epoll(7) refuses it with EPERM."""

    LARGE_DESCRIPTORS = "large_descriptors"
    """Descriptors of any number can be registered; select(2) stops at FD_SETSIZE."""

    FLAT_COST = "flat_cost"
    """The cost of a wait does not grow with the number of idle registrations."""

    FILES = "files"
    """A completion backend that supports Open, Sync, Stat and Close, and Read and Write at an offset."""

    PROCESSES = "processes"
    """A completion backend that supports WaitProcess."""

    HANDLES = "handles"
    """A completion backend on Windows that reads and writes pipes, which are HANDLEs there and cannot be watched."""

    SEND_FILE = "send_file"
    """A completion backend that supports SendFile."""

    CHEAP_POLLS = "cheap_polls"
    """A completion backend where submitting a Poll costs no extra system call."""


class ProbeResult(NamedTuple):
    """Whether the backend can run here; `reason` says why not, and is empty if it can."""

    available: bool
    reason: str = ""


class ReadinessBackend(Protocol):
    """A multiplexer that reports which descriptors are ready.

    Guaranteed: events are level-triggered: a descriptor is reported by every wait while it is ready and
    registered. A registration lasts until `unregister`. The backend calls nothing back.
    `unregister` and `close` may be called in the middle of `wait`, by a finalizer, a signal handler or another thread:
    the collector runs in whichever thread allocates.
    Allowed: spurious events; core tries, gets EAGAIN, and waits again.
    Operating system errors are plain `OSError`; any call after `close` except `close` and
    `wake` raises BackendClosedError.
    """

    if TYPE_CHECKING:  # read only; a class that inherits this one may set them all the same

        @property
        def name(self) -> str: ...

        @property
        def capabilities(self) -> frozenset[Capability]: ...

    else:
        name: str
        capabilities: frozenset[Capability]

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say whether this backend can run here, cheaply and without side effects.

        Raises UsageError if a setting for this backend is invalid. That is the user's mistake, so a list of backends
        does not skip it.
        """
        ...

    def register(self, fd: int, interest: int) -> None:
        """Watch `fd` for `interest`, a non-empty union of READ and WRITE.

        Raises FileExistsError if `fd` is registered already, OSError if it is not an open descriptor,
        ValueError if the number is too large for this backend; the message names backends that accept it.
        """
        ...

    def modify(self, fd: int, interest: int) -> None:
        """Replace the interest of a registered `fd`. Raises FileNotFoundError if it is not registered."""
        ...

    def unregister(self, fd: int) -> None:
        """Stop watching `fd`. Raises FileNotFoundError if it is not registered.

        Never fails for a registered descriptor that has been closed: the kernel may have
        dropped it already.

        Thread: any, also in the middle of `wait`. The wait continues for the other descriptors, or returns early as
        after a wake. It does not report `fd`, unless the event was already on its way to the caller (core drops it),
        and does not keep the file open.
        """
        ...

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        """Block until something is ready, the timeout passes, or `wake` is called.

        `timeout` is in seconds; None waits without limit, 0.0 only polls. It is rounded up to the
        system call's resolution: rounding down would end the wait early and spin until the deadline. A signal
        whose Python handler returns does not end the wait (PEP 475); one whose handler raises does.

        Guaranteed: no descriptor appears twice. A wake shows as an early return, not as an event, except that a
        wake racing with the wait may leave an event for a descriptor core never registered; core drops it.
        """
        ...

    def wake(self) -> None:
        """Make the current `wait`, or else the next one, return at once. Coalesces: n wakes may end one wait.

        Thread: any, also from a signal handler. After `close` it does nothing.
        """
        ...

    def close(self) -> None:
        """Release the backend's own descriptors; the registered ones belong to others. Idempotent.

        Thread: any, also in the middle of `wait`: that wait ends, with no events or with BackendClosedError, and may
        keep the descriptors it is using until it has ended.
        """
        ...


class BackendFactory(Protocol):
    """What an entry point or `register_backend` names: a backend class of either port, or a similar callable.

    It may have a class method `details()`, which returns short texts by name for `loopcore info --all` to show if the
    backend can run here: what it is built on, which features it uses, and why it does not use the others.
    """

    def __call__(self) -> "Backend": ...

    def probe(self) -> ProbeResult: ...
