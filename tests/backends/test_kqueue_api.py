"""What the kqueue backend relies on in `select.kqueue`: one contract for the fake, for libkqueue and for the real one.

`names` is the real one where there is one; libkqueue where LOOPCORE_TEST_KQUEUE names its shared object (what it does
otherwise is in `libkqueue.toml`); and the fake on every other Linux, once for each dialect.
"""

import errno
import os
import select
import selectors
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from tests.backends import kqueues

READ, WRITE, PROC = "KQ_FILTER_READ", "KQ_FILTER_WRITE", "KQ_FILTER_PROC"
RECEIPT = 0x0040


def _kinds() -> list[str]:
    if hasattr(selectors, "KqueueSelector"):
        return ["real"]
    library = kqueues.library()
    if library or sys.platform != "linux":
        return [library] if library else []
    return ["fake-freebsd", "fake-macos", "fake-openbsd", "fake-netbsd"]


@pytest.fixture(params=_kinds(), ids=lambda kind: "libkqueue" if os.sep in kind else kind)
def names(request):
    """What `select` has on the system under test."""
    return select if request.param == "real" else SimpleNamespace(**kqueues.names_of(request.param))


@pytest.fixture
def queue(names):
    made = names.kqueue()
    yield made
    made.close()


@pytest.fixture
def change(names, queue):
    """Makes one change, with no room for events."""

    def apply(thing, which=READ, flags="ADD", **more):
        number = names.KQ_EV_ADD if flags == "ADD" else getattr(names, f"KQ_EV_{flags}")
        queue.control([names.kevent(thing, getattr(names, which), number, **more)], 0, 0)

    return apply


@pytest.fixture
def look(names, queue):
    """Returns what is ready now, as (descriptor, filter)."""
    words = {getattr(names, name): name for name in (READ, WRITE, PROC)}
    return lambda: sorted((event.ident, words[event.filter]) for event in queue.control(None, 16, 0))


def test_directions_are_events_of_their_own(change, look, pair):
    pair[1].send(b"x")
    change(pair[0], READ)
    change(pair[0], WRITE)
    assert look() == [(pair[0].fileno(), READ), (pair[0].fileno(), WRITE)]
    change(pair[0], WRITE, "DELETE")
    assert look() == [(pair[0].fileno(), READ)]


def test_events_are_level_triggered_and_count_what_is_there(change, queue, pair):
    pair[1].send(b"abc")
    change(pair[0])
    assert [event.data for _ in range(2) for event in queue.control(None, 4, 0)] == [3, 3]


def test_addition_twice_is_one_knote(change, look, pair):
    for _ in range(2):
        change(pair[0], WRITE)
    assert look() == [(pair[0].fileno(), WRITE)]


def test_end_of_file_keeps_what_is_left_to_read(names, change, queue, pair):
    pair[1].send(b"abc")
    pair[1].close()
    change(pair[0])
    (event,) = queue.control(None, 4, 0)
    assert (event.data, event.flags & names.KQ_EV_EOF) == (3, names.KQ_EV_EOF)


def test_half_close_ends_reading_only(names, change, queue, pair):
    pair[1].shutdown(socket.SHUT_WR)
    change(pair[0], READ)
    change(pair[0], WRITE)
    ended = {event.filter: bool(event.flags & names.KQ_EV_EOF) for event in queue.control(None, 4, 0)}
    assert ended == {getattr(names, READ): True, getattr(names, WRITE): False}


def test_refused_connection_tells_its_error_and_keeps_it(names, change, queue):
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    listener.close()
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(address)
        change(sock, WRITE)
        (event,) = queue.control(None, 4, 5)
        assert event.flags & names.KQ_EV_EOF
        assert event.fflags == errno.ECONNREFUSED
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def test_listening_socket_tells_its_backlog(change, queue):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        change(listener)
        (event,) = queue.control(None, 4, 5)
        for client in clients:
            client.close()
    assert event.data == 3


def test_knote_goes_with_its_number_though_a_copy_is_open(change, look, pair):
    with pair[0].dup():
        change(pair[0])
        pair[0].close()
        pair[1].send(b"x")
        assert look() == []


def test_reused_number_can_be_added(change, look, make_pair):
    old = make_pair()
    number = old[0].fileno()
    change(number)
    old[0].close()
    new = make_pair()
    assert number in {end.fileno() for end in new}
    change(number, WRITE)
    assert look() == [(number, WRITE)]


@pytest.mark.parametrize(("flags", "number"), [("ADD", errno.EBADF), ("DELETE", errno.EBADF)])
def test_closed_descriptor_is_refused(change, closed_number, flags, number):
    with pytest.raises(OSError, match="Bad file") as caught:
        change(closed_number, READ, flags)
    assert caught.value.errno == number


def test_deletion_of_an_unknown_knote_is_refused(change, pair):
    with pytest.raises(FileNotFoundError):
        change(pair[0], READ, "DELETE")


def test_first_failure_ends_a_call_without_room(names, queue, look, pair):
    wrong = names.kevent(pair[0], getattr(names, READ), names.KQ_EV_DELETE)
    right = names.kevent(pair[0], getattr(names, WRITE), names.KQ_EV_ADD)
    with pytest.raises(FileNotFoundError):
        queue.control([wrong, right], 0, 0)
    assert look() == []


def test_failure_is_an_event_where_there_is_room(names, queue, pair):
    wrong = names.kevent(pair[0], getattr(names, READ), names.KQ_EV_DELETE)
    (event,) = queue.control([wrong], 4, 0)
    assert (event.flags & names.KQ_EV_ERROR, event.data) == (names.KQ_EV_ERROR, errno.ENOENT)


def test_receipt_tells_of_success_too(names, queue, pair):
    added = names.kevent(pair[0], getattr(names, WRITE), names.KQ_EV_ADD | RECEIPT)
    (event,) = queue.control([added], 4, 0)
    assert (event.flags & names.KQ_EV_ERROR, event.data) == (names.KQ_EV_ERROR, 0)


def test_one_shot_fires_once(names, queue, look, pair):
    queue.control([names.kevent(pair[0], getattr(names, WRITE), names.KQ_EV_ADD | names.KQ_EV_ONESHOT)], 0, 0)
    assert [look(), look()] == [[(pair[0].fileno(), WRITE)], []]


def test_cleared_knote_waits_for_the_next_change(names, queue, look, pair):
    queue.control([names.kevent(pair[0], getattr(names, READ), names.KQ_EV_ADD | names.KQ_EV_CLEAR)], 0, 0)
    for _ in range(2):
        pair[1].send(b"x")
        assert [look(), look()] == [[(pair[0].fileno(), READ)], []]


def test_disabled_knote_is_silent_until_it_is_enabled(change, look, pair):
    change(pair[0], WRITE)
    change(pair[0], WRITE, "DISABLE")
    assert look() == []
    change(pair[0], WRITE, "ENABLE")
    assert look() == [(pair[0].fileno(), WRITE)]


def test_short_list_takes_turns(change, queue, make_pair):
    numbers = {end.fileno() for _ in range(4) for end in make_pair()}
    for number in numbers:
        change(number, WRITE)
    assert {event.ident for _ in range(len(numbers)) for event in queue.control(None, 2, 0)} == numbers


def test_regular_file_fires_until_its_end(change, look, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with path.open("rb", buffering=0) as file:
        change(file)
        assert look() == [(file.fileno(), READ)]
        file.read()
        assert look() == []


def test_change_by_another_thread_ends_a_wait(change, queue, pair):
    thread = threading.Thread(target=change, args=(pair[0], WRITE))
    thread.start()
    assert [event.ident for event in queue.control(None, 4, 30)] == [pair[0].fileno()]
    thread.join()


def test_queue_can_be_watched_by_another(names, queue, pair):
    with pair[0]:
        inner = names.kqueue()
        inner.control([names.kevent(pair[0], getattr(names, READ))], 0, 0)
        queue.control([names.kevent(inner, getattr(names, READ))], 0, 0)
        assert queue.control(None, 4, 0) == []
        pair[1].send(b"x")
        assert [event.ident for event in queue.control(None, 4, 5)] == [inner.fileno()]
        inner.close()


def test_exit_of_a_child_is_reported(names, queue):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        exit_note = names.kevent(child.pid, getattr(names, PROC), names.KQ_EV_ADD, names.KQ_NOTE_EXIT)
        queue.control([exit_note], 0, 0)
        assert queue.control(None, 4, 0) == []
        assert child.stdin is not None
        child.stdin.close()
        (event,) = queue.control(None, 4, 30)
    assert (event.ident, event.fflags & names.KQ_NOTE_EXIT) == (child.pid, names.KQ_NOTE_EXIT)


def test_timer_fires_again_and_again(names, queue):
    queue.control([names.kevent(1, names.KQ_FILTER_TIMER, names.KQ_EV_ADD, 0, 1)], 0, 0)
    assert [event.ident for _ in range(2) for event in queue.control(None, 4, 30)] == [1, 1]


def test_user_event_fires_when_triggered(names, queue):
    number, trigger = getattr(names, "user_filter", None), 0x01000000
    if number is None:
        pytest.skip("Python's select names no EVFILT_USER")
    queue.control([names.kevent(7, number, names.KQ_EV_ADD | names.KQ_EV_CLEAR)], 0, 0)
    assert queue.control(None, 4, 0) == []
    thread = threading.Thread(target=lambda: queue.control([names.kevent(7, number, 0, trigger)], 0, 0))
    thread.start()
    assert [event.ident for event in queue.control(None, 4, 30)] == [7]
    thread.join()
    assert queue.control(None, 4, 0) == []
