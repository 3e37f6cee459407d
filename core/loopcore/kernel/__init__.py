"""The kernel: the only code that runs callbacks.

Handles and timers, futures and tasks, the tick and its queues, the poller, and what measures and observes them.

Imports ports, hooks and the C library; no socket, transport or service.
"""

from loopcore.tracebacks import show_sources

show_sources(__name__, __path__)
