"""inspect: look at the loops of a running process from outside. docs/reference/plugins/inspect.md.

    LOOPCORE_PLUGINS=inspect loopcore run server.py   lets the user who started it inspect it
    loopcore ps PID                                   its tasks, and what each awaits
    loopcore stacks PID                               the stacks of its threads and tasks
    loopcore top PID                                  live figures; --html FILE writes them to a page

In the process: `plugin` (opens the socket), `server` (its thread), `subject` (the answers), `observer`, `stalls`
and `creation_times` (measurements). In the command: `client`, `commands`, `listing`, `figures`, `screen`, `top`,
`page`. Both use `places` and `protocol`.
"""

from loopcore_plugins.inspect.plugin import Inspect

__all__ = ["Inspect"]
