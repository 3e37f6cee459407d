"""Attach: `loopcore ps`, `stacks`, `top`, `dump` and `record` of a process that was not prepared for it.

It works for any asyncio program on Python 3.14 and later, on Linux: on asyncio's own loop, uvloop, or loopcore.
`process` checks whether it can be done and explains why not, `injection` brings the code of `agent` into the process
with `sys.remote_exec`, `waking` gets a process that waits to run it, and `outside` reads what can be read if it does
not. `reports`, `screen` and `commands` are the side of the command line.
"""

from loopcore_plugins.attach.injection import Agent, NotReachedError, attached

__all__ = ["Agent", "NotReachedError", "attached"]
