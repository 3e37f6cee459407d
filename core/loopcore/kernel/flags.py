"""The bits of a loop's `_slow_path_flags`. In the ordinary case none is set, so one test covers them all.

The modules that test them have copies that their .pxd types as C integers.
"""

import sys
from enum import IntFlag
from typing import Final

HAS_GIL: Final = "free-threading" not in sys.version
"""Whether this Python was built with a GIL. A free-threaded one may run with it, too: sys._is_gil_enabled()."""


class SlowPath(IntFlag):
    """Why a loop leaves the fast path."""

    CLOSED = 1
    """`close` was called, or the loop's `__init__` never ran."""
    NOT_RUNNING = 2
    """The loop is not running."""
    DEBUG = 4
    """Debug mode is on."""
    WATCHING_HANDLES = 8
    """A plugin watches handles or tasks."""
    WATCHING_TICKS = 16
    """A plugin watches ticks."""
