"""inspect: look at the loops of a running process from outside. docs/reference/plugins/inspect.md.

    LOOPCORE_PLUGINS=inspect loopcore run server.py   lets the user who started it inspect it
    loopcore ps PID                                   its tasks, and what each awaits
    loopcore stacks PID                               the stacks of its threads and tasks
    loopcore top PID                                  live figures; --page shows them in a browser

In the process: `plugin` (opens the socket), `server` (its thread), `subject` (the answers), `observer`, `stalls`,
`loop_thread` and `creation_times` (measurements). In the command: `client`, `commands`, `listing`, `sampler`,
`figures`, `columns`, `screen`, `top`, `page`. Both use `places` and `protocol`.
"""

from loopcore_plugins.inspect.plugin import Inspect

__all__ = ["Inspect"]
