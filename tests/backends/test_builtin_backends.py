"""What only one of our own backends has: epoll's ghosts, other platforms' bits in poll, select's Windows."""

import asyncio
import contextlib
import errno
import gc
import os
import select
import socket
import threading

import pytest

import loopcore
from loopcore.errors import BackendClosedError
from loopcore.ports.direct import DirectPort
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends import _waker, poll_, select_

epoll = pytest.importorskip("loopcore_backends.epoll")
needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="epoll(7) belongs to Linux")


@pytest.fixture
def closing():
    """Closes what it is called with, after the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda *things: [stack.callback(thing.close) for thing in things]


@pytest.mark.parametrize("backend_class", [epoll.EpollBackend, poll_.PollBackend, select_.SelectBackend])
def test_probe_says_that_it_runs_here_or_why_not(backend_class):
    available, reason = backend_class.probe()
    assert available == (reason == "")


@pytest.mark.parametrize(("missing", "backend_class"), [("epoll", epoll.EpollBackend), ("poll", poll_.PollBackend)])
def test_probe_names_an_alternative_where_the_platform_lacks_the_call(monkeypatch, missing, backend_class):
    monkeypatch.delattr(select, missing, raising=False)
    available, reason = backend_class.probe()
    assert not available
    assert "use" in reason
    assert "select" in reason


@needs_epoll
@pytest.mark.parametrize(("error", "here"), [(errno.EPERM, False), (errno.ENOSYS, False), (errno.EMFILE, True)])
def test_epoll_that_a_sandbox_refuses_cannot_run_here(monkeypatch, error, here):
    """A lack of descriptors is an error of the constructor: another backend needs them, too."""

    def refuse():
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(select, "epoll", refuse)
    available, reason = epoll.EpollBackend.probe()
    assert available == here
    assert here or "allow it there, or use backend='poll'" in reason


def closed_too_early(closing):
    """Return a backend, a peer and a number: registered, closed while a duplicate holds the file open."""
    backend = epoll.EpollBackend()
    one, other = socket.socketpair()
    copy = one.dup()
    closing(backend, one, other, copy)
    number = one.fileno()
    backend.register(number, READ)
    one.close()
    return backend, other, number


def haunted(closing):
    """The same, and the number is unregistered."""
    backend, other, number = closed_too_early(closing)
    backend.unregister(number)
    return backend, other, number


@needs_epoll
def test_ghost_of_a_duplicated_descriptor_is_not_reported(closing):
    backend, other, _ = haunted(closing)
    other.send(b"x")
    assert list(backend.wait(0.0)) == []


@needs_epoll
def test_ghost_does_not_keep_waits_from_sleeping(closing, elapsed):
    backend, other, _ = haunted(closing)
    backend.wake()
    backend.wait(0.0)
    other.send(b"x")
    backend.wait(0.0)
    for _ in range(2):
        assert elapsed(backend, 0.02) >= 0.02


@needs_epoll
def test_ghost_is_not_reported_either_while_descriptors_are_short(closing, monkeypatch):
    def out_of_descriptors():
        raise OSError(errno.EMFILE, "Too many open files")

    backend, other, _ = haunted(closing)
    other.send(b"x")
    with monkeypatch.context() as short:
        short.setattr(select, "epoll", out_of_descriptors)
        assert list(backend.wait(0.0)) == []
    assert list(backend.wait(0.0)) == []


@needs_epoll
@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENOSPC])
def test_descriptor_for_which_there_is_no_room_when_a_ghost_is_removed_is_an_error(
    closing, make_pair, monkeypatch, number
):
    without, watched = make_pair(), make_pair()
    backend, other, _ = haunted(closing)
    for one, _ in (without, watched):
        backend.register(one.fileno(), READ)
    refused, instance = {without[0].fileno()}, select.epoll

    class Full:
        def __init__(self):
            self._instance = instance()

        def __getattr__(self, name):
            return getattr(self._instance, name)

        def register(self, fd, interest):
            if fd in refused:
                raise OSError(number, os.strerror(number))
            self._instance.register(fd, interest)

    other.send(b"x")
    with monkeypatch.context() as changed:
        changed.setattr(select, "epoll", Full)
        with pytest.raises(OSError, match=os.strerror(number)):
            backend.wait(0.0)
    watched[1].send(b"x")
    assert list(backend.wait(None)) == [(watched[0].fileno(), READ)]
    refused.clear()
    without[1].send(b"x")
    backend.modify(without[0].fileno(), READ)
    assert len(backend.wait(None)) == 2


@needs_epoll
def test_close_while_a_ghost_is_removed_is_not_lost(closing, monkeypatch):
    """Another thread, or a finalizer, may close at any moment of a wait (issue 32)."""
    backend, other, _ = haunted(closing)
    other.send(b"x")
    instance = select.epoll

    class Closing:
        def __init__(self):
            self._instance = instance()

        def __getattr__(self, name):
            return getattr(self._instance, name)

        def fileno(self):
            backend.close()
            return self._instance.fileno()

    with monkeypatch.context() as changed:
        changed.setattr(select, "epoll", Closing)
        with pytest.raises(BackendClosedError):
            backend.wait(0.0)
    with pytest.raises(BackendClosedError):
        backend.register(other.fileno(), READ)


@needs_epoll
def test_number_of_a_ghost_can_be_registered_again(closing, make_pair):
    backend, _, number = haunted(closing)
    pair = make_pair()
    assert pair[0].fileno() == number
    backend.register(number, READ)
    pair[1].send(b"x")
    assert list(backend.wait(None)) == [(number, READ)]


@needs_epoll
def test_ghost_of_a_number_that_was_never_unregistered_ends(closing, make_pair, elapsed):
    backend, other, number = closed_too_early(closing)
    pair = make_pair()
    assert pair[0].fileno() == number
    backend.modify(number, READ)
    other.send(b"x")
    for _ in range(epoll.FIRST_DOUBT):
        backend.wait(0.0)
    assert elapsed(backend, 0.02) >= 0.02
    pair[1].send(b"x")
    assert list(backend.wait(None)) == [(number, READ)]


@needs_epoll
@pytest.mark.parametrize("waker_kind", ["eventfd", "socketpair"], indirect=True)
def test_registrations_and_wakes_survive_a_ghost(closing, make_pair, waker_kind):
    pair, gone = make_pair(), make_pair()
    backend, other, _ = haunted(closing)
    backend.register(pair[0].fileno(), READ)
    number = gone[0].fileno()
    backend.register(number, READ)
    gone[0].close()
    other.send(b"x")
    backend.wake()
    assert list(backend.wait(0.0)) == []
    pair[1].send(b"x")
    assert list(backend.wait(None)) == [(pair[0].fileno(), READ)]
    backend.modify(pair[0].fileno(), READ | WRITE)
    assert list(backend.wait(None)) == [(pair[0].fileno(), READ | WRITE)]
    pair[0].recv(1)
    backend.modify(pair[0].fileno(), READ)
    backend.wake()
    assert list(backend.wait(None)) == []
    backend.unregister(number)


@needs_epoll
def test_row_that_was_not_noted_is_taken_up_by_the_next_registration(closing, pair):
    backend = epoll.EpollBackend()
    closing(backend)
    number = pair[0].fileno()
    backend.register(number, READ)
    backend._registered.remove(number)  # as if a signal's handler had raised between the two
    backend.register(number, WRITE)
    assert list(backend.wait(None)) == [(number, WRITE)]
    backend.unregister(number)
    assert list(backend.wait(0.0)) == []
    with pytest.raises(FileExistsError):
        backend.register(backend._wake_fd, READ)


@needs_epoll
def test_events_that_somebody_keeps_are_not_touched_by_the_next_wait(closing, pair):
    backend = epoll.EpollBackend()
    closing(backend)
    backend.register(pair[0].fileno(), READ | WRITE)
    kept = backend.wait(0.0)
    backend.modify(pair[0].fileno(), READ)
    assert backend.wait(0.0) == []
    assert kept == [(pair[0].fileno(), WRITE)]


@needs_epoll
def test_wait_within_a_wait_that_lets_go_of_what_was_added_to_the_events_has_events_of_its_own(closing, make_pair):
    backend = epoll.EpollBackend()
    pairs = [make_pair() for _ in range(20)]
    closing(backend)
    for one, other in pairs:
        other.send(b"x")
        backend.register(one.fileno(), READ)
    within = []

    class Waiting:
        def __del__(self):
            for one, _ in pairs[1:]:
                one.recv(1)
            within.append(backend.wait(0.0))

    backend.wait(0.0).append(Waiting())  # the one reference to the list is gone again
    backend.wait(0.0)
    gc.collect()  # where references are not counted
    assert within == [[(pairs[0][0].fileno(), READ)]]
    assert backend.wait(0.0) == within[0]


@needs_epoll
def test_number_that_comes_back_to_its_file_can_be_registered_again(closing, pair):
    backend = epoll.EpollBackend()
    number = pair[0].fileno()
    copy = os.dup(number)
    closing(backend)
    backend.register(number, READ)
    os.close(number)
    backend.unregister(number)
    os.dup2(copy, number)
    os.close(copy)
    backend.register(number, WRITE)
    assert list(backend.wait(0.0)) == [(number, WRITE)]


@needs_epoll
def test_loop_waits_as_a_class_derived_from_a_backend_does(closing):
    class Counting(epoll.EpollBackend):
        waits = 0

        def wait(self, timeout):
            self.waits += 1
            return super().wait(timeout)

    backend = Counting()
    loop = loopcore.EventLoop(backend)
    closing(loop)
    loop.run_until_complete(asyncio.sleep(0.001))
    assert backend.waits > 0


@needs_epoll
def test_wait_of_a_backend_that_is_initialised_again_touches_no_other_list():
    backend = epoll.EpollBackend()
    begun = threading.Event()

    def wait():
        begun.set()
        with contextlib.suppress(OSError):  # what it waits in is closed, perhaps before it has begun
            backend.wait(0.2)

    waiter = threading.Thread(target=wait)
    waiter.start()
    begun.wait()
    backend.__init__()
    mine = [["mine"] for _ in range(5)]
    waiter.join()
    backend.close()
    assert mine == [["mine"]] * 5


def test_direct_port_without_a_wait_says_so():
    class Waiting(DirectPort):
        pass

    with pytest.raises(NotImplementedError, match="Waiting"):
        Waiting().wait(0.0)


@needs_epoll
def test_epoll_refusals_that_have_a_remedy_name_it(closing, monkeypatch):
    class Full:
        closed = False

        def register(self, fd, interest):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    backend = epoll.EpollBackend()
    closing(backend, backend._epoll)
    monkeypatch.setattr(backend, "_epoll", Full())

    class Number(int):
        """Compiled, the kernel is asked without the object unless the number is of another class than int."""

    with pytest.raises(OSError, match="No space") as caught:
        backend.register(Number(0), READ)
    assert "max_user_watches" in caught.value.__notes__[0]


@pytest.mark.parametrize("backend_class", [poll_.PollBackend, select_.SelectBackend])
@pytest.mark.parametrize(("method", "arguments"), [("modify", (READ,)), ("unregister", ())])
def test_call_during_which_the_backend_is_closed_says_so(backend_class, method, arguments, pair, closing):
    """The table is emptied by the close (issue 32)."""
    if not backend_class.probe()[0]:
        pytest.skip(backend_class.probe()[1])
    backend = backend_class()
    closing(backend)
    backend.register(pair[0].fileno(), READ)

    class ClosedWhenAsked(set):
        def __contains__(self, number):
            backend.close()
            return super().__contains__(number)

        def remove(self, number):
            backend.close()
            super().remove(number)

    backend._registered = ClosedWhenAsked(backend._registered)
    with pytest.raises(BackendClosedError):
        getattr(backend, method)(pair[0].fileno(), *arguments)


@pytest.mark.parametrize("backend_class", [epoll.EpollBackend, poll_.PollBackend, select_.SelectBackend])
@pytest.mark.parametrize(("number", "complaint"), [(-1, "negative"), (2**40, "larger than")])
def test_number_that_no_file_has_is_refused_with_the_reason(backend_class, number, complaint, closing):
    if not backend_class.probe()[0]:
        pytest.skip("not on this platform")
    backend = backend_class()
    closing(backend)
    with pytest.raises(ValueError, match=f"{number} is {complaint}"):
        backend.register(number, READ)


@needs_epoll
def test_file_that_epoll_does_not_watch_is_refused_with_another_way(closing, tmp_path):
    backend = epoll.EpollBackend()
    file = (tmp_path / "file").open("wb")
    closing(backend, file)
    with pytest.raises(PermissionError) as caught:
        backend.register(file.fileno(), WRITE)
    assert "run_in_executor" in "".join(caught.value.__notes__)


def test_number_beyond_what_select_takes_is_refused_with_another_backend(closing):
    backend = select_.SelectBackend()
    closing(backend)
    with pytest.raises(ValueError, match=r"beyond FD_SETSIZE.*poll"):
        backend.register(5000, READ)


def test_more_sockets_than_select_of_windows_takes_are_refused_with_another_backend(monkeypatch, make_pair, closing):
    monkeypatch.setattr(select_, "WINDOWS", True)
    monkeypatch.setattr(select_, "MOST_ON_WINDOWS", 1)
    backend = select_.SelectBackend()
    closing(backend)
    one, other = make_pair()
    backend.register(one.fileno(), READ)
    with pytest.raises(ValueError, match=r"at most 1 sockets; use .*iocp"):
        backend.register(other.fileno(), READ)
    backend.unregister(one.fileno())
    backend.register(other.fileno(), READ)
    assert list(backend.wait(0.0)) == []


def test_poll_translates_bits_where_they_differ(monkeypatch, make_pair, closing):
    foreign = {2: READ, 1: WRITE, 64: ERROR, 128: HANGUP, 256: ERROR}
    monkeypatch.setattr(poll_, "BITS", foreign)
    assert poll_.from_poll(2 | 1) == READ | WRITE
    assert poll_.from_poll(64) == poll_.from_poll(256) == ERROR
    assert poll_.from_poll(128 | 2) == HANGUP | READ
    monkeypatch.undo()
    monkeypatch.setattr(poll_, "SAME_BITS", False)
    backend = poll_.PollBackend()
    closing(backend)
    pair = make_pair()
    backend.register(pair[0].fileno(), READ | WRITE)
    pair[1].send(b"x")
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), READ | WRITE)]


@pytest.mark.parametrize("backend_class", [poll_.PollBackend, select_.SelectBackend])
def test_closed_descriptor_is_reported_as_an_error(backend_class, make_pair, closing):
    backend = backend_class()
    closing(backend)
    pair = make_pair()
    number = pair[0].fileno()
    backend.register(number, READ)
    pair[0].close()
    assert list(backend.wait(None)) == [(number, ERROR)]


def test_select_reports_a_failed_connection_as_windows_does(monkeypatch):
    monkeypatch.setattr(select_, "WINDOWS", True)
    monkeypatch.setattr(select, "select", lambda readers, writers, failing, timeout: ([3], [], list(failing)))
    assert select_._select({3, 5}, {5}, 0.0) == {3: READ, 5: WRITE | ERROR}


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="needs eventfd(2)")
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_eventfd_that_a_profile_refuses_is_done_without(monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "eventfd", refuse)
    backend = poll_.PollBackend()
    assert isinstance(_waker.make_waker(), _waker.SocketpairWaker)
    backend.wake()
    assert list(backend.wait(None)) == []
    backend.close()


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="needs eventfd(2)")
def test_want_of_descriptors_is_no_reason_for_another_waker(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "eventfd", refuse)
    with pytest.raises(OSError) as caught:
        _waker.make_waker()
    assert caught.value.errno == errno.EMFILE


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="needs eventfd(2)")
def test_wake_of_a_full_counter_is_an_edge_all_the_same(closing, elapsed):
    backend = epoll.EpollBackend()
    closing(backend)
    os.eventfd_write(backend._wake_fd, 2**64 - 2)
    backend.wait(0.0)
    backend.wake()
    assert elapsed(backend, 30.0) < 30.0


@pytest.mark.parametrize("backend_class", [poll_.PollBackend, select_.SelectBackend])
def test_wait_that_begins_in_the_middle_of_a_close_is_refused(backend_class, wait_inside_close):
    """Issue 32: nothing would end it."""
    with pytest.raises(BackendClosedError):
        wait_inside_close(backend_class())


def test_waker_closes_its_descriptors_with_the_last_reference():
    waker = _waker.make_waker()
    number = waker.fd
    os.fstat(number)
    del waker
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)
