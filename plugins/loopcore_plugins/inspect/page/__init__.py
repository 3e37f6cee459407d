"""Page: the figures of a loop with charts, live in a browser or as one file. It needs no network, and no other file."""

from loopcore_plugins.inspect.page.recording import record
from loopcore_plugins.inspect.page.serving import serve

__all__ = ["record", "serve"]
