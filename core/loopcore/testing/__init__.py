"""Tools for authors of backends, plugins and programs for loopcore, to prove their work correct.

    from loopcore.testing.conformance import BackendContract    every promise of the port, as a test class to subclass
    from loopcore.testing import VirtualClock, ScriptedBackend  time and events under a test's control

`import loopcore` imports none of this. Most of it needs pytest, some of it hypothesis:
`pip install "loopcore[testing]"`.

Imports everything; only `loopcore_pytest` imports it.
"""

from loopcore.testing.clock import VirtualClock
from loopcore.testing.scripted import ScriptedBackend, ScriptedPort
from loopcore.tracebacks import show_sources

__all__ = ["ScriptedBackend", "ScriptedPort", "VirtualClock"]

show_sources(__name__, __path__)
