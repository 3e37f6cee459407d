"""Life: whether this is still the process that made the ring.

A child of fork(2) shares the ring's memory with its parent: the parent would submit the child's requests, and miss the
completions that the child took. Python's hooks close what a child inherits, but C code may fork without them.
Getting the process number each time costs a system call; a page that the kernel wipes in a child (MADV_WIPEONFORK,
Linux 4.14) costs one memory read. Sources: madvise(2). Thread: the loop's own.
"""

import mmap
from typing import Any

from loopcore.errors import BackendClosedError

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import address_of, words64
else:
    from loopcore_backends._native.uring import address_of, words64

_WIPE_ON_FORK = 18


class Life:
    """A word that is 1 here and 0 in every child."""

    __slots__ = ("page", "word")

    def __init__(self) -> None:
        """Mark this process. Raises OSError if there is no memory left."""
        self.page: mmap.mmap = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.page.madvise(_WIPE_ON_FORK)
        self.word: Any = words64(address_of(self.page), 1)
        self.word[0] = 1

    def is_here(self) -> bool:
        """Tell whether this is the process that made it."""
        return bool(self.word[0])


def child_error() -> BackendClosedError:
    """Return the error for a child that uses its parent's ring."""
    return BackendClosedError(
        "this ring belongs to the process that made it, and this is a child that was forked without Python's hooks "
        "(os.register_at_fork), as C code does; make a new loop here"
    )
