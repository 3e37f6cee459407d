"""Interest: what a descriptor is watched for, and what a backend reports about it.

Plain integers, because a batch of events crosses the port in every tick and an `enum.IntFlag` costs a
Python call for each test. The values are those of poll(2) on Linux, so that poll and epoll pass their
lists on unchanged.

Guaranteed: READ and WRITE. Hints only: ERROR and HANGUP may be missing although the peer is gone, and are
reported whether requested or not. Core treats either as "both directions are ready": the next
recv or send then reports what happened.
"""

from typing import Final

READ: Final = 1
WRITE: Final = 4
ERROR: Final = 8
HANGUP: Final = 16

NAMES: Final = {READ: "READ", WRITE: "WRITE", ERROR: "ERROR", HANGUP: "HANGUP"}


def describe(interest: int) -> str:
    """Return the names of the bits in `interest`, joined by `|`; for messages and reprs."""
    return "|".join(name for bit, name in NAMES.items() if interest & bit) or "none"
