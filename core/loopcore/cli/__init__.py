"""The command `loopcore`: run a program on loopcore, and say what is installed.

`entry` parses and dispatches, `program` finds what to run and runs it as Python itself would, `defaults`
makes asyncio's own entrances build loopcore's loops, `reports` gathers facts and `output` shows them.
"""

from loopcore.cli.entry import main

__all__ = ["main"]
