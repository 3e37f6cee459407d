"""Services of a loop besides scheduling: executors, names, signals, child processes, socket calls.

Each is made on first use (`parts`), and gets what it needs of the loop, not the loop.

Imports the kernel, never a transport.
"""

from loopcore.tracebacks import show_sources

show_sources(__name__, __path__)
