"""loopcore's loggers. No handler is installed: that is the program's choice.

Messages that asyncio has too go to its logger, `asyncio`: programs have configured, filtered and asserted on that name
for years. Among them are slow callbacks (debug mode) and unhandled exceptions. `loopcore` is for messages that only
this loop has, `loopcore.plugin` for plugins that failed.
"""

import logging

logger = logging.getLogger("asyncio")
own_logger = logging.getLogger("loopcore")
plugin_logger = logging.getLogger("loopcore.plugin")
