"""The contract of a backend, as a test class to subclass; see `loopcore.testing.conformance.contract`."""

from loopcore.testing.conformance.contract import BackendContract

__all__ = ["BackendContract"]
