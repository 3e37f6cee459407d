"""A forked child closes its copy of the port, and the parent's still works."""

import os

import pytest

from loopcore.testing.conformance.base import Level

FORKING = """
import os, socket
from loopcore.ports.operations import Poll, Receive

one, other = socket.socketpair()
for end in (one, other):
    end.setblocking(False)
receiving, polling = Receive(one.fileno(), 100), Poll(one.fileno(), 1)
port.submit(receiving)
port.submit(polling)
port.wait(0.0)
child = os.fork()
if child == 0:
    assert set(port.close()) == {receiving, polling}
    one.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert not port.wait(0.0)
other.send(b"x")
seen = {}
while len(seen) < 2:
    for operation, result, more in port.wait(30.0):
        seen[operation] = result
        if operation is receiving and not more:
            port.submit(receiving)  # a port may want to be asked again
assert seen[receiving] == b"x" and seen[polling] & 1, seen
port.cancel(receiving)
while [more for operation, _, more in port.wait(0.0) if operation is receiving] != [False]:
    pass
assert not port.close()
one.close()
other.close()
"""


class CompletionForks(Level):
    """A forked child closes its copy of the port, and the parent's still works."""

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
    def test_close_in_a_forked_child_leaves_the_parents_port_alone(self) -> None:
        self.run_beside(FORKING)
