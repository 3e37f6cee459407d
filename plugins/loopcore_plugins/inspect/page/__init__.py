"""Page: some seconds of a loop as one HTML file with charts. It needs no network, and no other file."""

from loopcore_plugins.inspect.page.recording import record

__all__ = ["record"]
