"""The bits of a loop's `_slow_path_flags`: none is up in the ordinary case, which one test tells from all others.

The modules that test them keep them as C integers of their own, which their .pxd types.
"""

from typing import Final

CLOSED: Final = 1
"""`close` was called, or the loop's `__init__` never ran."""
IDLE: Final = 2
"""The loop does not run."""
DEBUG: Final = 4
"""Debug mode is on."""
WATCHING_HANDLES: Final = 8
"""A plugin watches handles or tasks."""
WATCHING_TICKS: Final = 16
"""A plugin watches ticks."""
