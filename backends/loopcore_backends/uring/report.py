"""Report: which features a ring uses here, and why not the others; for `loopcore info`."""

from collections.abc import Collection
from typing import Final

from loopcore_backends.uring import features
from loopcore_backends.uring.features import Features
from loopcore_backends.uring.requests import Requests
from loopcore_backends.uring.ring import Ring

SINCE: Final = {
    "defer_taskrun": "6.1",
    "incremental": "6.12",
    "multishot_receive": "6.0",
    "bundles": "6.10",
    "inline_sends": "5.17",
    "waitid": "6.7",
}
"""The Linux releases in which features arrived; features of every kernel that uring accepts are not listed."""

NEEDS_BUFFERS: Final = ("incremental", "multishot_receive", "bundles")
"""Features that need `buffer_ring`."""


def details() -> dict[str, str]:
    """Make a ring, and return for each feature `on`, or why it is off.

    Raises BackendUnavailableError where no ring can be made, UsageError for an invalid mask.
    """
    without = features.masked()
    ring = Ring(without)
    try:
        streams = Requests(ring).streams
    finally:
        ring.close()
    # Whether the kernel fills buffers incrementally is known only after trying.
    return states(ring.features._replace(incremental=streams is not None and streams.incremental), without)


def states(used: Features, without: Collection[str]) -> dict[str, str]:
    """Return `on` or the reason why not for each feature; `used` are those of the ring, `without` the masked ones."""
    found = {name: "on" if value else _reason(name, used, without) for name, value in used._asdict().items()}
    if used.bundles and used.incremental:
        found["bundles"] = "off: incremental is used instead"
    return found


def _reason(name: str, used: Features, without: Collection[str]) -> str:
    if name in without:
        return f"masked by {features.VARIABLE}"
    if name in NEEDS_BUFFERS and not used.buffer_ring:
        return "off: it needs buffer_ring"
    since = SINCE.get(name)
    return f"refused by this kernel: it came with Linux {since}" if since else "refused by this kernel"
