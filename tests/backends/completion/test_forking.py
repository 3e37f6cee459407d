"""A forked child closes its copy of the port, and the parent's goes on."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
import os, socket, sys
from loopcore.operations import Poll, Receive
from tests.backends.ports import maker_of

port = maker_of(sys.argv[1])()
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


def test_close_in_a_forked_child_leaves_the_parents_port_alone(port_kind):
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PROGRAM, port_kind]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
