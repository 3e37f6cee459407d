"""Features: what this kernel can do, what the user has masked, and why uring is refused where it cannot run.

io_uring grew over the years, and no list says what a kernel has: some features show as a bit, some as an opcode
that arrived in the same release, some only by trying. So a patched kernel is judged by what it can do, not by its
version.

LOOPCORE_URING_WITHOUT names features, separated by commas, that must not be used even if present: to work around a
kernel bug, and to test the code for older kernels.

Memory barriers: with `defer_taskrun` the kernel posts completions only inside our own io_uring_enter(2), so that the
ring is never written while we read it. Without, a kernel thread on another processor may write it. Compiled code then
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
"""The features that can be masked."""

ORDERED: Final = ("x86_64", "AMD64", "i686")
"""Machines that keep the order of stores and of loads."""

SWITCH: Final = "/proc/sys/kernel/io_uring_disabled"
INSTEAD: Final = "use backend='epoll'"

_NEEDED: Final = layout.FEAT_NODROP | layout.FEAT_SUBMIT_STABLE | layout.FEAT_EXT_ARG | layout.FEAT_SINGLE_MMAP


class Features(NamedTuple):
    """The features to use."""

    defer_taskrun: bool
    buffer_ring: bool
    incremental: bool
    """Buffers that one receive after another fills, until they are full. Known only after trying."""
    multishot_receive: bool
    multishot_accept: bool
    multishot_poll: bool
    bundles: bool
    inline_sends: bool
    """Sends that end while they are submitted, and are reported only if they fail."""
    waitid: bool
    files: bool


def masked(without: Collection[str] = ()) -> frozenset[str]:
    """Return `without` and the names in LOOPCORE_URING_WITHOUT. Raises UsageError for an unknown name."""
    if isinstance(without, str):
        raise UsageError(f"without= takes a list of names, such as without=[{without!r}]")
    asked = {name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()}
    for source, names in ((VARIABLE, asked), ("without=", without)):
        unknown = set(names).difference(NAMES)
        if unknown:
            raise UsageError(f"{source} names {', '.join(sorted(unknown))}; it can name {', '.join(NAMES)}")
    return frozenset(asked.union(without))


def refusal_by_machine() -> str:
    """Return why this machine is not supported, whatever its kernel; empty if it is."""
    if sys.platform != "linux":
        return "io_uring(7) exists on Linux only; use kqueue, poll or select here"
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return f"uring supports 64-bit little-endian machines only; {INSTEAD}"
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


def refusal_by_kernel(bits: int, opcodes: frozenset[int], features: Features, has_barriers: bool) -> str:
    """Return why the kernel is too old for a ring that is read with memory barriers or without; empty if it is not."""
    if bits & _NEEDED != _NEEDED or layout.OP_SOCKET not in opcodes:
        return f"uring needs Linux 5.19 or newer, this is {platform.release()}; {INSTEAD}"
    if not features.defer_taskrun and not has_barriers and platform.machine() not in ORDERED:
        return (
            f"interpreted on {platform.machine()}, uring needs Linux 6.1 or newer and must not be masked "
            f"with defer_taskrun; install a compiled build, or {INSTEAD}"
        )
    return ""


def decide(bits: int, opcodes: frozenset[int], defers: bool, without: frozenset[str]) -> Features:
    """Return the features to use on a kernel with these feature bits and opcodes."""
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
    """Return the opcodes in a struct io_uring_probe, given as 16-bit integers."""
    count = answer[0] >> 8
    # After a head of 16 bytes, 8 bytes for each opcode: the number, an unused byte, and flags, of which 1 is
    # "supported".
    return frozenset(opcode for opcode in range(count) if answer[8 + 4 * opcode + 1] & 1)


def unavailable(reason: str) -> BackendUnavailableError:
    """Return the error that a constructor raises."""
    return BackendUnavailableError(f"backend 'uring' cannot run here: {reason}")
