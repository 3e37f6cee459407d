"""What is registered is reported, and nothing else."""

import os

import pytest

from loopcore.backend import Capability
from loopcore.interest import ERROR, HANGUP, READ, WRITE

pytestmark = pytest.mark.loopcore_only


def test_nothing_registered_reports_nothing(backend):
    assert list(backend.wait(0.0)) == []


def test_idle_descriptor_is_not_reported(backend, pair):
    backend.register(pair[0].fileno(), READ)
    assert list(backend.wait(0.0)) == []


def test_readable_descriptor_is_reported(backend, pair):
    backend.register(pair[0].fileno(), READ)
    pair[1].send(b"x")
    assert list(backend.wait(None)) == [(pair[0].fileno(), READ)]


def test_readiness_from_before_the_registration_is_reported(backend, pair):
    pair[1].send(b"x")
    backend.register(pair[0].fileno(), READ)
    assert list(backend.wait(None)) == [(pair[0].fileno(), READ)]


def test_readiness_is_level_triggered(backend, pair):
    backend.register(pair[0].fileno(), READ)
    pair[1].send(b"xy")
    for _ in range(3):
        assert list(backend.wait(0.0)) == [(pair[0].fileno(), READ)]
    pair[0].recv(1)
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), READ)]
    pair[0].recv(1)
    assert list(backend.wait(0.0)) == []


def test_both_interests_make_one_event(backend, pair):
    backend.register(pair[0].fileno(), READ | WRITE)
    pair[1].send(b"x")
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), READ | WRITE)]


def test_only_the_interest_asked_for_is_reported(backend, pair):
    backend.register(pair[0].fileno(), WRITE)
    pair[1].send(b"x")
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), WRITE)]


def test_modify_replaces_the_interest(backend, pair):
    backend.register(pair[0].fileno(), WRITE)
    backend.modify(pair[0].fileno(), READ)
    assert list(backend.wait(0.0)) == []
    backend.modify(pair[0].fileno(), READ | WRITE)
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), WRITE)]


def test_unregistered_descriptor_is_not_reported(backend, pair):
    backend.register(pair[0].fileno(), WRITE)
    backend.unregister(pair[0].fileno())
    assert list(backend.wait(0.0)) == []


def test_descriptor_can_be_registered_again(backend, pair):
    for _ in range(2):
        backend.register(pair[0].fileno(), WRITE)
        backend.unregister(pair[0].fileno())
    backend.register(pair[0].fileno(), WRITE)
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), WRITE)]


def test_full_buffer_is_not_writable_until_it_drains(backend, pair, fill):
    taken = fill(pair[0])
    backend.register(pair[0].fileno(), WRITE)
    assert list(backend.wait(0.0)) == []
    while taken:
        taken -= len(pair[1].recv(1 << 20))
    assert list(backend.wait(None)) == [(pair[0].fileno(), WRITE)]


def test_double_registration_raises(backend, pair):
    backend.register(pair[0].fileno(), READ)
    with pytest.raises(FileExistsError, match=f"{pair[0].fileno()} is registered already"):
        backend.register(pair[0].fileno(), WRITE)
    assert list(backend.wait(0.0)) == []


def test_modify_of_an_unknown_descriptor_raises(backend, pair):
    with pytest.raises(FileNotFoundError, match="not registered"):
        backend.modify(pair[0].fileno(), READ)


def test_unregister_of_an_unknown_descriptor_raises(backend, pair):
    with pytest.raises(FileNotFoundError, match="not registered"):
        backend.unregister(pair[0].fileno())
    backend.register(pair[0].fileno(), READ)
    backend.unregister(pair[0].fileno())
    with pytest.raises(FileNotFoundError):
        backend.unregister(pair[0].fileno())


def test_closed_descriptor_is_refused(backend, closed_number):
    with pytest.raises(OSError, match="Bad file descriptor"):
        backend.register(closed_number, READ)
    with pytest.raises(FileNotFoundError):
        backend.unregister(closed_number)


@pytest.mark.parametrize(("number", "complaint"), [(-1, "negative"), (2**40, "larger than")])
def test_impossible_number_is_refused(backend, number, complaint):
    with pytest.raises(ValueError, match=f"{number} is {complaint}"):
        backend.register(number, READ)


def test_unregister_of_a_closed_descriptor_is_fine(backend, pair):
    number = pair[0].fileno()
    backend.register(number, READ | WRITE)
    pair[0].close()
    backend.unregister(number)
    assert list(backend.wait(0.0)) == []


def test_closed_descriptor_does_not_hide_the_others(backend, make_pair):
    gone, alive = make_pair(), make_pair()
    number = gone[0].fileno()
    backend.register(number, READ)
    backend.register(alive[0].fileno(), READ)
    gone[0].close()
    alive[1].send(b"x")
    events = dict(backend.wait(0.0))
    assert events.pop(number, ERROR) & (ERROR | HANGUP)
    assert events == {alive[0].fileno(): READ}


def test_reused_number_is_a_new_registration(backend, make_pair):
    old = make_pair()
    number = old[0].fileno()
    backend.register(number, READ | WRITE)
    old[0].close()
    backend.unregister(number)
    new = make_pair()
    assert number in {end.fileno() for end in new}
    assert list(backend.wait(0.0)) == []
    backend.register(number, WRITE)
    assert list(backend.wait(0.0)) == [(number, WRITE)]


def test_unregister_of_a_number_reused_by_a_regular_file_is_fine(backend, pair, tmp_path):
    number = pair[0].fileno()
    backend.register(number, READ)
    pair[0].close()
    with (tmp_path / "file").open("wb") as file:
        assert file.fileno() == number
        backend.unregister(number)
        assert list(backend.wait(0.0)) == []


def test_number_reused_without_unregister_stays_registered(backend, make_pair):
    old = make_pair()
    number = old[0].fileno()
    backend.register(number, READ)
    old[0].close()
    new = make_pair()
    assert number in {end.fileno() for end in new}
    with pytest.raises(FileExistsError):
        backend.register(number, WRITE)
    backend.modify(number, WRITE)
    assert list(backend.wait(0.0)) == [(number, WRITE)]
    backend.unregister(number)
    assert list(backend.wait(0.0)) == []


def test_half_closed_peer_is_readable(backend, pair):
    backend.register(pair[0].fileno(), READ)
    pair[1].shutdown(1)
    ((number, ready),) = backend.wait(None)
    assert number == pair[0].fileno()
    assert ready & READ


@pytest.mark.parametrize("interest", [READ, WRITE, READ | WRITE])
def test_closed_peer_is_reported(backend, pair, interest):
    backend.register(pair[0].fileno(), interest)
    pair[1].close()
    ((number, ready),) = backend.wait(None)
    assert number == pair[0].fileno()
    assert ready & (interest | HANGUP | ERROR)
    assert not ready & ~(interest | HANGUP | ERROR)


def test_pipe_without_readers_is_reported_to_the_writer(backend):
    reader, writer = os.pipe()
    backend.register(writer, WRITE)
    os.close(reader)
    ((number, ready),) = backend.wait(None)
    backend.unregister(writer)
    os.close(writer)
    assert number == writer
    assert ready & (WRITE | ERROR | HANGUP)


def test_pipe_without_writers_is_reported_to_the_reader(backend):
    reader, writer = os.pipe()
    backend.register(reader, READ)
    os.close(writer)
    ((number, ready),) = backend.wait(None)
    backend.unregister(reader)
    os.close(reader)
    assert number == reader
    assert ready & (READ | HANGUP)


def test_500_descriptors_are_all_reported(backend, make_pair):
    numbers = {end.fileno() for _ in range(250) for end in make_pair()}
    for number in numbers:
        backend.register(number, WRITE)
    assert _until_all(backend, numbers) == numbers
    for number in numbers:
        backend.unregister(number)
    assert list(backend.wait(0.0)) == []


def test_more_descriptors_than_a_wait_returns_take_turns(backend, many_copies):
    if Capability.LARGE_DESCRIPTORS not in backend.capabilities:
        pytest.skip("the backend ends at FD_SETSIZE")
    numbers = many_copies(1100)
    for number in numbers:
        backend.register(number, WRITE)
    assert _until_all(backend, numbers) == numbers


def test_regular_file_is_ready_or_refused_with_advice(backend, tmp_path):
    with (tmp_path / "file").open("wb") as file:
        if Capability.REGULAR_FILES in backend.capabilities:
            backend.register(file.fileno(), WRITE)
            assert list(backend.wait(None)) == [(file.fileno(), WRITE)]
            backend.unregister(file.fileno())
        else:
            with pytest.raises(PermissionError) as caught:
                backend.register(file.fileno(), WRITE)
            assert "run_in_executor" in "".join(caught.value.__notes__)
            with pytest.raises(FileNotFoundError):
                backend.unregister(file.fileno())


def test_large_number_is_watched_or_refused_with_advice(backend, many_copies):
    number = max(many_copies(1100))
    if Capability.LARGE_DESCRIPTORS in backend.capabilities:
        backend.register(number, WRITE)
        assert list(backend.wait(None)) == [(number, WRITE)]
    else:
        with pytest.raises(ValueError, match=r"beyond FD_SETSIZE.*poll"):
            backend.register(number, WRITE)
        with pytest.raises(FileNotFoundError):
            backend.unregister(number)


def _until_all(backend, numbers):
    """Return who was reported by as many waits as a backend that is fair needs at most."""
    found: set[int] = set()
    for _ in range(len(numbers)):
        found.update(number for number, _ in backend.wait(0.0))
        if found == numbers:
            break
    return found
