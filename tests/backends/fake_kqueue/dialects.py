"""Where the systems with a kqueue differ, as far as the backend or a test may notice. Data only.

From the manual pages and sources of FreeBSD 14, macOS 14 (xnu), OpenBSD 7.6 and NetBSD 10; none of it was run.
"""

import errno
from dataclasses import dataclass, field

NAMES = ("READ", "WRITE", "AIO", "VNODE", "PROC", "SIGNAL", "TIMER")


@dataclass(frozen=True)
class Dialect:
    """One system's ways."""

    name: str
    filters: dict[str, int] = field(default_factory=lambda: {name: -1 - rank for rank, name in enumerate(NAMES)})
    user_filter: int = -11
    """EVFILT_USER; Python's `select` names it on no system."""
    broken_pipe: int | None = errno.EPIPE
    """The error of adding WRITE to a pipe without a reader; None: it is added, and fires with EV_EOF."""
    device: int | None = errno.ENODEV
    """The error of adding a device such as /dev/null; None: it is added, and always ready."""
    zombie: int | None = None
    """The error of adding PROC for a process that has ended already; None: it is added, and fires at once."""
    longest_timeout: float = float("inf")
    """Seconds; a longer wait is EINVAL."""


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("freebsd"),
        Dialect("macos", user_filter=-10, device=errno.EINVAL, zombie=errno.ESRCH, longest_timeout=1e8),
        Dialect("openbsd", user_filter=-10, broken_pipe=None, device=None, zombie=errno.ESRCH, longest_timeout=1e8),
        Dialect(
            "netbsd",
            filters={name: rank for rank, name in enumerate(NAMES)},
            user_filter=8,
            device=errno.EOPNOTSUPP,
            zombie=errno.ESRCH,
        ),
    )
}
