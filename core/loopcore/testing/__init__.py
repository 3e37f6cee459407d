"""What those need who write a backend, a plugin or a program for loopcore, to prove it correct.

    from loopcore.testing.conformance import BackendContract    every promise of the port, as a test class to subclass
    from loopcore.testing import VirtualClock, ScriptedBackend  time and events as a test wants them

`import loopcore` brings nothing of this. Most of it needs pytest, some of it hypothesis:
`pip install "loopcore[testing]"`.
"""

from loopcore.testing.clock import VirtualClock
from loopcore.testing.scripted import ScriptedBackend, ScriptedPort

__all__ = ["ScriptedBackend", "ScriptedPort", "VirtualClock"]
