"""After closing: a backend leaves nothing behind, not even in a forked child."""

import gc
import os
from collections.abc import Callable

import pytest

from loopcore.errors import BackendClosedError
from loopcore.ports.interest import READ, WRITE
from loopcore.ports.readiness import ReadinessBackend
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.surroundings import Pair, open_files

FORKING = """
import os, socket
from loopcore.ports.interest import READ

one, other = socket.socketpair()
port.register(one.fileno(), READ)
child = os.fork()
if child == 0:
    port.close()
    one.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
other.send(b"x")
assert list(port.wait(30.0)) == [(one.fileno(), READ)]
one.recv(1)
port.wake()
assert list(port.wait(30.0)) == []
port.modify(one.fileno(), READ)
port.unregister(one.fileno())
port.close()
one.close()
other.close()
"""


class ReadinessEnds(Level):
    """After closing: a backend leaves nothing behind, not even in a forked child."""

    @pytest.mark.parametrize(
        ("method", "arguments"),
        [("register", (0, READ)), ("modify", (0, READ)), ("unregister", (0,)), ("wait", (0.0,)), ("wait", (None,))],
    )
    def test_every_method_after_close_raises(
        self, port: ReadinessBackend, method: str, arguments: tuple[float | None, ...]
    ) -> None:
        port.close()
        with pytest.raises(BackendClosedError, match=port.name):
            getattr(port, method)(*arguments)

    def test_methods_after_close_raise_for_what_was_registered(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), WRITE)
        port.close()
        with pytest.raises(BackendClosedError):
            port.modify(pair[0].fileno(), READ)
        with pytest.raises(BackendClosedError):
            port.unregister(pair[0].fileno())

    def test_close_is_idempotent(self, port: ReadinessBackend) -> None:
        port.close()
        port.close()

    def test_wake_after_close_does_nothing(self, port: ReadinessBackend, pair: Pair) -> None:
        port.close()
        port.wake()

    def test_close_leaves_registered_descriptors_open(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        port.close()
        pair[1].send(b"x")
        assert pair[0].recv(1) == b"x"

    def test_close_gives_every_descriptor_back(self, make_port: Callable[[], ReadinessBackend], pair: Pair) -> None:
        before = open_files()
        for _ in range(20):
            port = make_port()
            port.register(pair[0].fileno(), READ | WRITE)
            port.wake()
            port.wait(0.0)
            port.close()
        assert open_files() == before

    def test_backend_that_nobody_closed_gives_its_descriptors_back(self) -> None:
        before = open_files()
        self.make()
        gc.collect()
        assert open_files() == before

    def test_descriptors_are_not_inherited_by_programs(self, make_port: Callable[[], ReadinessBackend]) -> None:
        before = open_files()
        make_port()
        for number in open_files() - before:
            try:
                assert not os.get_inheritable(int(number))
            except OSError:  # the descriptor of the listing
                continue

    def test_backends_are_independent(self, make_port: Callable[[], ReadinessBackend], pair: Pair) -> None:
        one, other = make_port(), make_port()
        one.register(pair[0].fileno(), WRITE)
        assert list(other.wait(0.0)) == []
        other.register(pair[0].fileno(), WRITE)
        one.wake()
        one.close()
        assert list(other.wait(None)) == [(pair[0].fileno(), WRITE)]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
    def test_forked_child_can_close_without_disturbing_its_parent(self) -> None:
        # In a separate process: forking the one that runs the tests would copy their threads' locks.
        self.run_beside(FORKING)
