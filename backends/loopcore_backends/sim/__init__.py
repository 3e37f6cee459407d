"""sim: a completion port without an operating system, for simulations (loopcore.sim).

Descriptors, sockets, pipes, names, signals and the clock are tables of a `World`, and every choice comes from its tape.
The loop, the transports, TLS and the streams above it are the production ones.
"""

from loopcore_backends.sim.port import SimBackend
from loopcore_backends.sim.world import World

__all__ = ["SimBackend", "World"]
