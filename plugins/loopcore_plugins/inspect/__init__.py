"""inspect: look at the loops of a running process from outside. docs/reference/plugins/inspect.md.

    LOOPCORE_PLUGINS=inspect python server.py     lets the user who started it look at it
    loopcore ps PID                               its tasks, and what each awaits
    loopcore stacks PID                           where its threads and tasks stand
    loopcore top PID                              live figures; --html FILE writes them to a page

In the process: `plugin` (when there is a socket), `server` (its thread), `subject` (the answers), `observer`, `stalls`
and `births` (what is measured). In the command: `client`, `commands`, `listing`, `figures`, `screen`, `top`, `page`.
`places` and `protocol` are common to both.
"""

from loopcore_plugins.inspect.plugin import Inspect

__all__ = ["Inspect"]
