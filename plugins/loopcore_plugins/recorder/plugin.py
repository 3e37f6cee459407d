from typing import Any
import mmap
from loopcore import hookimpl
from loopcore_plugins.recorder.labels import Labels
from loopcore_plugins.recorder.ring import Ring, size_of
from loopcore_plugins.recorder.tape import Tape


class Recorder:
    def __init__(self) -> None:
        self.tape = None

    @hookimpl
    def loopcore_make_observer(self, loop: Any) -> Tape:
        m = mmap.mmap(-1, size_of(65536))
        ring = Ring(m, 65536)
        self.tape = Tape(loop, ring, Labels(m, ring.set_word), 1)
        self.tape.follow_thread()
        return self.tape
