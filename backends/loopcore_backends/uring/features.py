"""Features: what the kernel here can do, what the user has masked, and why uring is refused where it is.

io_uring grew over the years, and there is no list of what a kernel has: some of it shows as a bit, some as an opcode
that arrived in the same release, some by being tried. So a kernel that somebody patched is taken by what it
can do, not by its number.

LOOPCORE_URING_WITHOUT names features that are not to be used though they are there, separated by commas: to get
around a fault of a kernel, and to test what runs on an older one.

Memory barriers: with `defer_taskrun` the kernel posts completions only inside our own io_uring_enter(2), so that the
ring is never written while we read it. Without, it may be, by a kernel thread on another processor. Compiled code then
reads with a barrier; interpreted code has none and relies on a processor that keeps the order of stores and of loads.
"""

import errno
import os
import platform
import sys
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from loopcore.errors import BackendUnavailableError, UsageError
from loopcore_backends.uring import layout

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

VARIABLE: Final = "LOOPCORE_URING_WITHOUT"
NAMES: Final = (
    "defer_taskrun",
    "buffer_ring",
    "incremental",
    "multishot_receive",
    "multishot_accept",
    "multishot_poll",
    "bundles",
    "inline_sends",
    "waitid",
    "files",
)
"""What can be masked."""

ORDERED: Final = ("x86_64", "AMD64", "i686")
"""Machines that keep the order of stores and of loads."""

SWITCH: Final = "/proc/sys/kernel/io_uring_disabled"
INSTEAD: Final = "use backend='epoll'"

_NEEDED: Final = layout.FEAT_NODROP | layout.FEAT_SUBMIT_STABLE | layout.FEAT_EXT_ARG | layout.FEAT_SINGLE_MMAP


class Features(NamedTuple):
    """What may be used."""

    defer_taskrun: bool
    buffer_ring: bool
    incremental: bool
    """Buffers that are filled by one receive after another, until they are full. It shows when it is tried."""
    multishot_receive: bool
    multishot_accept: bool
    multishot_poll: bool
    bundles: bool
    inline_sends: bool
    """Sends that end while they are submitted, and are told only if they fail."""
    waitid: bool
    files: bool


def masked(without: Collection[str] = ()) -> frozenset[str]:
    """Return `without`, and what LOOPCORE_URING_WITHOUT names. Raises UsageError for a name that means nothing."""
    if isinstance(without, str):
        raise UsageError(f"without= takes several names, as in without=[{without!r}]")
    asked = {name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()}
    for source, names in ((VARIABLE, asked), ("without=", without)):
        unknown = set(names).difference(NAMES)
        if unknown:
            raise UsageError(f"{source} names {', '.join(sorted(unknown))}; it can name {', '.join(NAMES)}")
    return frozenset(asked.union(without))


def refusal_by_machine() -> str:
    """Return why this machine cannot be served, whatever its kernel; empty if it can."""
    if sys.platform != "linux":
        return "io_uring(7) belongs to Linux; use kqueue, poll or select here"
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return f"uring is written for little-endian machines of 64 bits; {INSTEAD}"
    return ""


def refusal_by_error(error: int) -> str:
    """Return what the error of io_uring_setup(2) means here, and what to do."""
    if error == errno.ENOSYS:
        return f"this kernel ({platform.release()}) has no io_uring, or a sandbox hides it; {INSTEAD}"
    if error in (errno.EPERM, errno.EACCES):
        return f"io_uring is forbidden here: {_who_forbids()}; allow it there, or {INSTEAD}"
    if error in (errno.EMFILE, errno.ENFILE):
        return f"there is no descriptor left for the ring ({os.strerror(error)}); raise the limit (ulimit -n)"
    if error == errno.ENOMEM:
        return (
            "there is no memory for the ring: the limit of locked memory counts the rings of all processes of a "
            f"user; raise it (ulimit -l, LimitMEMLOCK=), or {INSTEAD}"
        )
    return f"io_uring_setup(2) fails: {os.strerror(error)}; {INSTEAD}"


def _who_forbids() -> str:
    try:
        with open(SWITCH, encoding="ascii") as file:
            switch = file.read().strip()
    except OSError:
        switch = "0"
    if switch == "2":
        return "kernel.io_uring_disabled is 2 (sysctl)"
    if switch == "1":
        return "kernel.io_uring_disabled is 1 (sysctl), and this process is not in kernel.io_uring_group"
    return "by seccomp, as in most containers (docker run --security-opt seccomp=...), or by a security module"


def refusal_by_kernel(bits: int, opcodes: frozenset[int], features: Features) -> str:
    """Return why the kernel is too old; empty if it is not."""
    if bits & _NEEDED != _NEEDED or layout.OP_SOCKET not in opcodes:
        return f"uring needs Linux 5.19 or newer, this is {platform.release()}; {INSTEAD}"
    if not features.defer_taskrun and not cython.compiled and platform.machine() not in ORDERED:
        return (
            f"interpreted on {platform.machine()}, uring needs Linux 6.1 or newer and must not be masked "
            f"with defer_taskrun; install a compiled build, or {INSTEAD}"
        )
    return ""


def decide(bits: int, opcodes: frozenset[int], defers: bool, without: frozenset[str]) -> Features:
    """Return what may be used of a kernel with these feature bits and opcodes."""
    buffer_ring = "buffer_ring" not in without
    multishot_receive = layout.OP_SEND_ZC in opcodes and "multishot_receive" not in without and buffer_ring  # 6.0
    return Features(
        defer_taskrun=defers,
        buffer_ring=buffer_ring,
        incremental=buffer_ring and "incremental" not in without,
        multishot_receive=multishot_receive,
        multishot_accept="multishot_accept" not in without,
        multishot_poll="multishot_poll" not in without,
        bundles=bool(bits & layout.FEAT_RECVSEND_BUNDLE) and "bundles" not in without and buffer_ring,
        inline_sends=bool(bits & layout.FEAT_CQE_SKIP) and "inline_sends" not in without,
        waitid=layout.OP_WAITID in opcodes and "waitid" not in without,
        files="files" not in without,
    )


def opcodes_of(answer: Any) -> frozenset[int]:
    """Return the opcodes in a struct io_uring_probe, given as integers of 16 bits."""
    count = answer[0] >> 8
    # After a head of 16 bytes, 8 bytes for each opcode: the number, a byte of nothing, and flags, of which 1 is
    # "supported".
    return frozenset(opcode for opcode in range(count) if answer[8 + 4 * opcode + 1] & 1)


def unavailable(reason: str) -> BackendUnavailableError:
    """The error of a constructor."""
    return BackendUnavailableError(f"backend 'uring' cannot run here: {reason}")
