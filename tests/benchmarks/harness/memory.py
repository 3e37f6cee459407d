"""Memory of this process, as the system tells it."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import resource


def peak_kib() -> int:
    """The largest resident set so far, where the system says it; else 0."""
    return 0 if sys.platform == "win32" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident_bytes() -> int:
    """Resident set of this process (proc(5), /proc/self/statm; pages). Raises NotImplementedError elsewhere."""
    if sys.platform != "linux":
        raise NotImplementedError
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
