"""The watchdog: a thread that reports stalls of a loop while they last. docs/reference/plugins/watchdog.md."""

from loopcore_plugins._tasktree import Place, TaskView
from loopcore_plugins.watchdog.health import set_ready
from loopcore_plugins.watchdog.plugin import Watchdog
from loopcore_plugins.watchdog.stall import Cause, Holder, Stall

__all__ = ["Cause", "Holder", "Place", "Stall", "TaskView", "Watchdog", "set_ready"]
