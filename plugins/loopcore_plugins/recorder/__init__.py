"""recorder: a flight recorder. What a loop did last, kept in a ring, and written down when something goes wrong."""

from loopcore_plugins.recorder.plugin import Recorder

__all__ = ["Recorder"]
