"""What Python cannot say: small C libraries, each with a Python module of the same functions.

A library is three files: `name.h`, the C functions; `name.pxd`, their declarations; and `name.py`, the same functions
in Python, which is never compiled. A module picks one in the import switch at its head and calls both in the same way.
The C has no state: what is kept belongs to a loop. The exceptions serve types alone, and interpreted classes need
none of them: `attributes` (an instance dict), `tasks` (the list of tasks) and `asyncio_task` (asyncio's as a base).
"""
