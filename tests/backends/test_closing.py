"""What a backend leaves behind: nothing, not even in a child that was forked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopcore.errors import BackendClosedError
from loopcore.interest import READ, WRITE

pytestmark = pytest.mark.loopcore_only


def _open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("register", (0, READ)), ("modify", (0, READ)), ("unregister", (0,)), ("wait", (0.0,)), ("wait", (None,))],
)
def test_every_method_after_close_raises(backend, method, arguments):
    backend.close()
    with pytest.raises(BackendClosedError, match=backend.name):
        getattr(backend, method)(*arguments)


def test_methods_after_close_raise_for_what_was_registered(backend, pair):
    backend.register(pair[0].fileno(), WRITE)
    backend.close()
    for call in (lambda: backend.modify(pair[0].fileno(), READ), lambda: backend.unregister(pair[0].fileno())):
        with pytest.raises(BackendClosedError):
            call()


def test_close_is_idempotent(backend):
    backend.close()
    backend.close()


def test_wake_after_close_does_nothing(backend, pair):
    backend.close()
    backend.wake()


def test_close_leaves_registered_descriptors_open(backend, pair):
    backend.register(pair[0].fileno(), READ)
    backend.close()
    pair[1].send(b"x")
    assert pair[0].recv(1) == b"x"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_close_gives_every_descriptor_back(make_backend, pair):
    before = _open_files()
    for _ in range(20):
        backend = make_backend()
        backend.register(pair[0].fileno(), READ | WRITE)
        backend.wake()
        backend.wait(0.0)
        backend.close()
    assert _open_files() == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_backend_that_nobody_closed_gives_its_descriptors_back(backend_name, waker_kind):
    from loopcore.discovery import choose_backend

    before = _open_files()
    choose_backend(backend_name).factory()
    assert _open_files() == before


def test_descriptors_are_not_inherited_by_programs(make_backend):
    before = _open_files()
    make_backend()
    for number in _open_files() - before:
        try:
            assert not os.get_inheritable(int(number))
        except OSError:  # that of the listing
            continue


def test_backends_are_independent(make_backend, pair):
    one, other = make_backend(), make_backend()
    one.register(pair[0].fileno(), WRITE)
    assert list(other.wait(0.0)) == []
    other.register(pair[0].fileno(), WRITE)
    one.wake()
    one.close()
    assert list(other.wait(None)) == [(pair[0].fileno(), WRITE)]


FORKING = """
import os, socket, sys
from loopcore.discovery import choose_backend
from loopcore.interest import READ

if sys.argv[2] == "socketpair":
    vars(os).pop("eventfd", None)
backend = choose_backend(sys.argv[1]).factory()
one, other = socket.socketpair()
backend.register(one.fileno(), READ)
child = os.fork()
if child == 0:
    backend.close()
    one.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
other.send(b"x")
assert list(backend.wait(None)) == [(one.fileno(), READ)]
one.recv(1)
backend.wake()
assert list(backend.wait(None)) == []
backend.modify(one.fileno(), READ)
backend.unregister(one.fileno())
backend.close()
one.close()
other.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
def test_forked_child_can_close_without_disturbing_its_parent(backend_name, waker_kind):
    # In a process of its own: forking the one that runs the tests would copy their threads' locks.
    command = [sys.executable, "-W", "error", "-c", FORKING, backend_name, waker_kind]
    subprocess.run(command, check=True, timeout=60)
