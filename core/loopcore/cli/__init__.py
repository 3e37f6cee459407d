"""The command `loopcore`: run a program on loopcore, and show what is installed.

`entry` dispatches, `parsing` has the parsers and the help, and `commands` finds the commands of other packages.
For `run`, `program` finds the program, `execution` runs it as Python itself would, and `defaults` makes asyncio's own
entry points create loopcore's loops. For the other built-in commands (`builtin`), `reports` gathers facts and `output`
shows them.

Imports what a program may import, and `selection`; nothing imports it.
"""

from loopcore.cli.entry import main

__all__ = ["main"]
