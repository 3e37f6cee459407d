"""Status: what the kernel reports about files and processes, converted to Python's form.

Sources: statx(2), waitid(2), wait(2).
"""

import os
import stat
import struct

from loopcore.ports.operations import READ_FILE
from loopcore_backends.uring import layout
from loopcore_backends.uring.slots import Slot


def stat_result(raw: bytes) -> os.stat_result:
    """Return a struct statx in the form of `os.stat`."""
    blksize, nlink, uid, gid, mode, ino, size, blocks = struct.unpack_from("=4xI8xIIIH2xQQQ", raw)
    seconds = [struct.unpack_from("=qI", raw, offset) for offset in (64, 112, 96)]
    rdev, dev = (os.makedev(*struct.unpack_from("=II", raw, offset)) for offset in (128, 136))
    whole = [second for second, _ in seconds]
    nanoseconds = [second * 10**9 + fraction for second, fraction in seconds]
    fractions = [second + fraction * 1e-9 for second, fraction in seconds]
    return os.stat_result(
        (mode, ino, dev, nlink, uid, gid, size, *whole, *fractions, *nanoseconds, blksize, blocks, rdev)
    )


def wait_status(code: int, status: int) -> int:
    """Return the status of wait(2) for `si_code` and `si_status` of a siginfo_t."""
    if code == layout.CLD_EXITED:
        return status << 8
    return status | (0x80 if code == layout.CLD_DUMPED else 0)


def moves_position(slot: Slot) -> bool:
    """Tell whether `slot` reads at a regular file's current position, which moves the position.

    A pipe is read in the ring's thread when it is ready; a file may be read by a kernel thread, at any time.
    """
    if slot.code != READ_FILE or slot.operation.offset >= 0:
        return False
    try:
        return stat.S_ISREG(os.fstat(slot.fd).st_mode)
    except OSError:
        return False
