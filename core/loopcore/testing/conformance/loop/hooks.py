"""Hooks: a plugin sees the same calls in the same order on every backend."""

import sys

import pytest

from loopcore.testing.conformance.loop.base import LoopLevel
from loopcore.testing.hooks import stream


class Hooks(LoopLevel):
    """The stream of one program, `loopcore.testing.hooks.stream`, is compared with that of a built-in backend."""

    @pytest.mark.skipif(sys.platform != "linux", reason="built-in backends learn of the ends of children in other ways")
    def test_stream_of_hook_calls_is_that_of_a_built_in_backend(self) -> None:
        port = self.make()
        expected = stream.record(stream.reference_for(port))
        assert stream.record(port) == expected
