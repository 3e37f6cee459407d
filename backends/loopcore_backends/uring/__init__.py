"""uring: a completion port on Linux's io_uring(7), without any library."""

from loopcore_backends.uring.backend import UringBackend

__all__ = ["UringBackend"]
