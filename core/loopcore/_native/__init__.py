"""What Python cannot say: small C libraries, each with a Python module of the same functions.

A library is three files: `name.h`, the C functions; `name.pxd`, their declarations; and `name.py`, the same functions
in Python, which is never compiled. A module picks one in the import switch at its head and calls both in the same way.
These three libraries have no state: what is kept belongs to a loop. The other four have no module in Python, as
interpreted classes do not need them: `attributes` (an instance dict), `asyncio_task` (asyncio's as a base) and
`threads` (numbers that threads share) serve types alone, and `tasks` keeps the list of all tasks, as the interpreter
does from Python 3.14 on. Of these, `attributes` keeps the slots that it replaces in a type, and `tasks` its list.

Imports nothing of loopcore.
"""
