"""The loggers of loopcore. No handler is installed: that is the program's choice.

What asyncio reports, too, goes to its logger, `asyncio`: programs have configured, filtered and asserted on that name
for years. Slow callbacks (debug mode) and exceptions that nobody catches are among it. `loopcore` is for what only
this loop has to say, `loopcore.plugin` for plugins that failed.
"""

import logging

logger = logging.getLogger("asyncio")
own_logger = logging.getLogger("loopcore")
plugin_logger = logging.getLogger("loopcore.plugin")
