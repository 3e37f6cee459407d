"""The loggers of loopcore. No handler is installed: that is the program's choice.

`loopcore` speaks of the loop, `loopcore.backend` and `loopcore.plugin` of what was plugged in,
`loopcore.slow` of callbacks that held the loop up (debug mode).
"""

import logging

logger = logging.getLogger("loopcore")
backend_logger = logging.getLogger("loopcore.backend")
plugin_logger = logging.getLogger("loopcore.plugin")
slow_logger = logging.getLogger("loopcore.slow")
