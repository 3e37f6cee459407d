"""System calls of the compiled backends: a header in C, and beside it the same functions in Python.

The `.pxd` declares what the header has. It holds no state, and includes only `loopcore/_native`.
"""
