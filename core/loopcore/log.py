"""The loggers of loopcore. No handler is installed: that is the program's choice.

`loopcore` speaks of the loop, `loopcore.plugin` of plugins that failed,
`loopcore.slow` of callbacks that held the loop up (debug mode).
"""

import logging

logger = logging.getLogger("loopcore")
plugin_logger = logging.getLogger("loopcore.plugin")
slow_logger = logging.getLogger("loopcore.slow")
