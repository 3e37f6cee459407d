"""The bits of a loop's `_slow_path_flags`. In the ordinary case none is set, so one test covers them all.

The modules that test them have copies that their .pxd types as C integers.
"""

import sys
from typing import Final

HAS_GIL: Final = "free-threading" not in sys.version
"""Whether this Python was built with a GIL. A free-threaded one may run with it, too: sys._is_gil_enabled()."""

CLOSED: Final = 1
"""`close` was called, or the loop's `__init__` never ran."""
NOT_RUNNING: Final = 2
"""The loop is not running."""
DEBUG: Final = 4
"""Debug mode is on."""
WATCHING_HANDLES: Final = 8
"""A plugin watches handles or tasks."""
WATCHING_TICKS: Final = 16
"""A plugin watches ticks."""
