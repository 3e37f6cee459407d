"""Convoy: a loop stays responsive next to threads that hold the GIL. docs/reference/plugins/convoy.md."""

from loopcore_plugins.convoy.plugin import Convoy

__all__ = ["Convoy"]
