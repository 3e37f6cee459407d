"""uring: a completion port on Linux's io_uring(7), without any library."""

from loopcore.tracebacks import show_sources
from loopcore_backends.uring.backend import UringBackend

__all__ = ["UringBackend"]

show_sources(__name__, __path__)
