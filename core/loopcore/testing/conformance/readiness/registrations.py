"""Registered descriptors are reported, and no others."""

import os
from pathlib import Path

import pytest

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.readiness import Capability, ReadinessBackend
from loopcore.selection.discovery import AUTO_ORDER
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.surroundings import Fill, ManyCopies, Pair, PairMaker


def _until_all(port: ReadinessBackend, numbers: set[int]) -> set[int]:
    """Return the numbers reported in as many waits as a fair backend needs at most."""
    found: set[int] = set()
    for _ in range(len(numbers)):
        found.update(number for number, _ in port.wait(0.0))
        if found == numbers:
            break
    return found


class Registrations(Level):
    """Registered descriptors are reported, and no others."""

    def test_nothing_registered_reports_nothing(self, port: ReadinessBackend) -> None:
        assert list(port.wait(0.0)) == []

    def test_idle_descriptor_is_not_reported(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        assert list(port.wait(0.0)) == []

    def test_readable_descriptor_is_reported(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        pair[1].send(b"x")
        assert list(port.wait(None)) == [(pair[0].fileno(), READ)]

    def test_readiness_from_before_the_registration_is_reported(self, port: ReadinessBackend, pair: Pair) -> None:
        pair[1].send(b"x")
        port.register(pair[0].fileno(), READ)
        assert list(port.wait(None)) == [(pair[0].fileno(), READ)]

    def test_readiness_is_level_triggered(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        pair[1].send(b"xy")
        for _ in range(3):
            assert list(port.wait(0.0)) == [(pair[0].fileno(), READ)]
        pair[0].recv(1)
        assert list(port.wait(0.0)) == [(pair[0].fileno(), READ)]
        pair[0].recv(1)
        assert list(port.wait(0.0)) == []

    def test_both_interests_make_one_event(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ | WRITE)
        pair[1].send(b"x")
        assert list(port.wait(0.0)) == [(pair[0].fileno(), READ | WRITE)]

    def test_only_the_interest_asked_for_is_reported(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), WRITE)
        pair[1].send(b"x")
        assert list(port.wait(0.0)) == [(pair[0].fileno(), WRITE)]

    def test_modify_replaces_the_interest(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), WRITE)
        port.modify(pair[0].fileno(), READ)
        assert list(port.wait(0.0)) == []
        port.modify(pair[0].fileno(), READ | WRITE)
        assert list(port.wait(0.0)) == [(pair[0].fileno(), WRITE)]

    def test_unregistered_descriptor_is_not_reported(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), WRITE)
        port.unregister(pair[0].fileno())
        assert list(port.wait(0.0)) == []

    def test_descriptor_can_be_registered_again(self, port: ReadinessBackend, pair: Pair) -> None:
        for _ in range(2):
            port.register(pair[0].fileno(), WRITE)
            port.unregister(pair[0].fileno())
        port.register(pair[0].fileno(), WRITE)
        assert list(port.wait(0.0)) == [(pair[0].fileno(), WRITE)]

    def test_full_buffer_is_not_writable_until_it_drains(self, port: ReadinessBackend, pair: Pair, fill: Fill) -> None:
        taken = fill(pair[0])
        port.register(pair[0].fileno(), WRITE)
        assert list(port.wait(0.0)) == []
        while taken:
            taken -= len(pair[1].recv(1 << 20))
        assert list(port.wait(None)) == [(pair[0].fileno(), WRITE)]

    def test_double_registration_raises(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        with pytest.raises(FileExistsError, match=f"{pair[0].fileno()} is registered already"):
            port.register(pair[0].fileno(), WRITE)
        assert list(port.wait(0.0)) == []

    def test_modify_of_an_unknown_descriptor_raises(self, port: ReadinessBackend, pair: Pair) -> None:
        with pytest.raises(FileNotFoundError, match="not registered"):
            port.modify(pair[0].fileno(), READ)

    def test_unregister_of_an_unknown_descriptor_raises(self, port: ReadinessBackend, pair: Pair) -> None:
        with pytest.raises(FileNotFoundError, match="not registered"):
            port.unregister(pair[0].fileno())
        port.register(pair[0].fileno(), READ)
        port.unregister(pair[0].fileno())
        with pytest.raises(FileNotFoundError):
            port.unregister(pair[0].fileno())

    def test_closed_descriptor_is_refused(self, port: ReadinessBackend, closed_number: int) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            port.register(closed_number, READ)
        with pytest.raises(FileNotFoundError):
            port.unregister(closed_number)

    @pytest.mark.parametrize("number", [-1, 2**40])
    def test_impossible_number_is_refused(self, port: ReadinessBackend, number: int) -> None:
        with pytest.raises(ValueError) as caught:
            port.register(number, READ)
        assert str(number) in str(caught.value), "the text has to name the number"

    def test_unregister_of_a_closed_descriptor_is_fine(self, port: ReadinessBackend, pair: Pair) -> None:
        number = pair[0].fileno()
        port.register(number, READ | WRITE)
        pair[0].close()
        port.unregister(number)
        assert list(port.wait(0.0)) == []

    def test_closed_descriptor_does_not_hide_the_others(self, port: ReadinessBackend, make_pair: PairMaker) -> None:
        gone, alive = make_pair(), make_pair()
        number = gone[0].fileno()
        port.register(number, READ)
        port.register(alive[0].fileno(), READ)
        gone[0].close()
        alive[1].send(b"x")
        events = dict(port.wait(0.0))
        assert events.pop(number, ERROR) & (ERROR | HANGUP)
        assert events == {alive[0].fileno(): READ}

    def test_reused_number_is_a_new_registration(self, port: ReadinessBackend, make_pair: PairMaker) -> None:
        old = make_pair()
        number = old[0].fileno()
        port.register(number, READ | WRITE)
        old[0].close()
        port.unregister(number)
        new = make_pair()
        assert number in {end.fileno() for end in new}
        assert list(port.wait(0.0)) == []
        port.register(number, WRITE)
        assert list(port.wait(0.0)) == [(number, WRITE)]

    def test_unregister_of_a_number_reused_by_a_regular_file_is_fine(
        self, port: ReadinessBackend, pair: Pair, tmp_path: Path
    ) -> None:
        number = pair[0].fileno()
        port.register(number, READ)
        pair[0].close()
        with (tmp_path / "file").open("wb") as file:
            assert file.fileno() == number
            port.unregister(number)
            assert list(port.wait(0.0)) == []

    def test_number_reused_without_unregister_stays_registered(
        self, port: ReadinessBackend, make_pair: PairMaker
    ) -> None:
        old = make_pair()
        number = old[0].fileno()
        port.register(number, READ)
        old[0].close()
        new = make_pair()
        assert number in {end.fileno() for end in new}
        with pytest.raises(FileExistsError):
            port.register(number, WRITE)
        port.modify(number, WRITE)
        assert list(port.wait(0.0)) == [(number, WRITE)]
        port.unregister(number)
        assert list(port.wait(0.0)) == []

    def test_half_closed_peer_is_readable(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        pair[1].shutdown(1)
        ((number, ready),) = port.wait(None)
        assert number == pair[0].fileno()
        assert ready & READ

    @pytest.mark.parametrize("interest", [READ, WRITE, READ | WRITE])
    def test_closed_peer_is_reported(self, port: ReadinessBackend, pair: Pair, interest: int) -> None:
        port.register(pair[0].fileno(), interest)
        pair[1].close()
        ((number, ready),) = port.wait(None)
        assert number == pair[0].fileno()
        assert ready & (interest | HANGUP | ERROR)
        assert not ready & ~(interest | HANGUP | ERROR)

    def test_pipe_without_readers_is_reported_to_the_writer(self, port: ReadinessBackend) -> None:
        reader, writer = os.pipe()
        port.register(writer, WRITE)
        os.close(reader)
        ((number, ready),) = port.wait(None)
        port.unregister(writer)
        os.close(writer)
        assert number == writer
        assert ready & (WRITE | ERROR | HANGUP)

    def test_pipe_without_writers_is_reported_to_the_reader(self, port: ReadinessBackend) -> None:
        reader, writer = os.pipe()
        port.register(reader, READ)
        os.close(writer)
        ((number, ready),) = port.wait(None)
        port.unregister(reader)
        os.close(reader)
        assert number == reader
        assert ready & (READ | HANGUP)

    def test_500_descriptors_are_all_reported(self, port: ReadinessBackend, make_pair: PairMaker) -> None:
        numbers = {end.fileno() for _ in range(250) for end in make_pair()}
        for number in numbers:
            port.register(number, WRITE)
        assert _until_all(port, numbers) == numbers
        for number in numbers:
            port.unregister(number)
        assert list(port.wait(0.0)) == []

    def test_more_descriptors_than_a_wait_returns_take_turns(
        self, port: ReadinessBackend, many_copies: ManyCopies
    ) -> None:
        if Capability.LARGE_DESCRIPTORS not in port.capabilities:
            pytest.skip("the backend ends at FD_SETSIZE")
        numbers = many_copies(1100)
        for number in numbers:
            port.register(number, WRITE)
        assert _until_all(port, numbers) == numbers

    def test_regular_file_is_ready_or_refused_with_advice(self, port: ReadinessBackend, tmp_path: Path) -> None:
        with (tmp_path / "file").open("wb") as file:
            if Capability.REGULAR_FILES in port.capabilities:
                port.register(file.fileno(), WRITE)
                assert list(port.wait(None)) == [(file.fileno(), WRITE)]
                port.unregister(file.fileno())
            else:
                with pytest.raises(PermissionError) as caught:
                    port.register(file.fileno(), WRITE)
                advice = "".join(getattr(caught.value, "__notes__", ()))
                assert advice, "add a note to the system's error: what to do instead (error.add_note)"
                with pytest.raises(FileNotFoundError):
                    port.unregister(file.fileno())

    def test_large_number_is_watched_or_refused_with_advice(
        self, port: ReadinessBackend, many_copies: ManyCopies
    ) -> None:
        number = max(many_copies(1100))
        if Capability.LARGE_DESCRIPTORS in port.capabilities:
            port.register(number, WRITE)
            assert list(port.wait(None)) == [(number, WRITE)]
        else:
            with pytest.raises(ValueError) as caught:
                port.register(number, WRITE)
            assert str(number) in str(caught.value), "the text has to name the number"
            others = [name for name in AUTO_ORDER if name != port.name and name in str(caught.value)]
            assert others, "the text has to name a backend that takes it"
            with pytest.raises(FileNotFoundError):
                port.unregister(number)
