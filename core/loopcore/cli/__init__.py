"""The command `loopcore`: run a program on loopcore, and show what is installed.

`entry` parses and dispatches, `program` finds the program and `execution` runs it as Python itself would, `defaults`
makes asyncio's own entry points create loopcore's loops, `reports` gathers facts, `output` shows them, and `commands`
adds the commands of other packages.
"""

from loopcore.cli.entry import main

__all__ = ["main"]
