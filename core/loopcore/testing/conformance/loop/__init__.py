"""A loop over the backend: transports, asyncio's surface, the hooks, and a soak test for leaks."""

from loopcore.testing.conformance.loop.hooks import Hooks
from loopcore.testing.conformance.loop.soak import Soak
from loopcore.testing.conformance.loop.surface import Surface
from loopcore.testing.conformance.loop.transports import Transports

LOOP_LEVELS = (Surface, Transports, Hooks, Soak)
