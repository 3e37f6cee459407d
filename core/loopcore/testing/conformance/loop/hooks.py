"""Hooks: a plugin sees the same calls in the same order on every backend."""

import sys

import pytest

from loopcore.testing.conformance.loop.base import LoopLevel
from loopcore.testing.hooks import stream


class Hooks(LoopLevel):
    """The whole stream of one program is compared with the reference in `loopcore.testing.hooks`."""

    @pytest.mark.skipif(sys.platform != "linux", reason="the ends of children are told by pidfds, in the reference")
    @pytest.mark.parametrize("time", ["first", "second"])
    def test_stream_of_hook_calls_is_that_of_the_reference(self, time: str) -> None:
        port = self.make()
        reference = stream.reference_of(port).read_text(encoding="utf-8")
        assert stream.record(port) == reference.splitlines()
