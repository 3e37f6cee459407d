"""Calls from anywhere: `unregister` and `close` by finalizers, signal handlers and other threads."""

import os
import socket
from collections.abc import Callable
from functools import partial

import pytest

from loopcore.errors import BackendClosedError
from loopcore.ports.interest import READ, WRITE
from loopcore.ports.readiness import ReadinessBackend
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.surroundings import (
    PATIENCE,
    OnAlarm,
    Pair,
    PairMaker,
    beside,
    collected_inside,
    switching_often,
)

ALARMS = pytest.mark.skipif(os.name != "posix", reason="needs setitimer(2)")


class ReadinessFromAnywhere(Level):
    """Calls from anywhere: `unregister` and `close` by finalizers, signal handlers and other threads."""

    def test_finalizer_may_unregister_inside_a_wait(self, port: ReadinessBackend, make_pair: PairMaker) -> None:
        stays, peer = make_pair()
        peer.send(b"x")
        port.register(stays.fileno(), READ)
        for allocations in range(1, 40):
            goes, other = make_pair()
            other.send(b"y")
            port.register(goes.fileno(), READ)
            with collected_inside(partial(port.unregister, goes.fileno()), allocations):
                events = dict(port.wait(0.0))
            assert events.get(stays.fileno()) == READ
            assert events.keys() <= {stays.fileno(), goes.fileno()}
            assert list(port.wait(0.0)) == [(stays.fileno(), READ)]
            goes.close()
            other.close()

    @ALARMS
    def test_signal_handler_may_unregister_inside_a_wait(
        self, port: ReadinessBackend, make_pair: PairMaker, on_alarm: OnAlarm
    ) -> None:
        (goes, other), (stays, peer) = make_pair(), make_pair()
        port.register(goes.fileno(), READ)
        port.register(stays.fileno(), READ)

        def unregister() -> None:
            port.unregister(goes.fileno())
            other.send(b"nobody asks any more")
            peer.send(b"x")

        on_alarm(unregister)
        assert _first_events(port) == [(stays.fileno(), READ)]
        assert list(port.wait(0.0)) == [(stays.fileno(), READ)]

    def test_another_thread_may_unregister_during_a_wait(self, port: ReadinessBackend, make_pair: PairMaker) -> None:
        stays, peer = make_pair()
        port.register(stays.fileno(), READ)
        for _ in range(30):
            goes, other = make_pair()
            port.register(goes.fileno(), READ)

            def unregister(fd: int = goes.fileno(), other: socket.socket = other) -> None:
                port.unregister(fd)
                other.send(b"nobody asks any more")
                peer.send(b"x")

            with beside(unregister):
                assert _first_events(port) == [(stays.fileno(), READ)]
            stays.recv(1)

    def test_descriptor_unregistered_in_another_thread_can_be_closed(
        self, port: ReadinessBackend, make_pair: PairMaker
    ) -> None:
        """If the wait in progress kept the file open, the peer would not see the end."""
        for _ in range(10):
            goes, other = make_pair()
            other.setblocking(True)
            other.settimeout(PATIENCE)
            port.register(goes.fileno(), READ)
            seen: list[bytes] = []

            def give_up(goes: socket.socket = goes, other: socket.socket = other, seen: list[bytes] = seen) -> None:
                port.unregister(goes.fileno())
                goes.close()
                seen.append(other.recv(1))
                port.wake()

            with beside(give_up):
                while not seen:
                    assert list(port.wait(PATIENCE)) == []
            assert seen == [b""]

    def test_storm_of_unregistrations_in_another_thread_reports_none_of_them(
        self, port: ReadinessBackend, make_pair: PairMaker
    ) -> None:
        stays, peer = make_pair()
        peer.send(b"x")
        port.register(stays.fileno(), READ)
        pairs = [make_pair() for _ in range(60)]
        for goes, other in pairs:
            other.send(b"y")
            port.register(goes.fileno(), READ)
        gone: set[int] = set()

        def unregister_all() -> None:
            for goes, _ in pairs:
                port.unregister(goes.fileno())
                gone.add(goes.fileno())

        with beside(unregister_all):
            while len(gone) < len(pairs):
                before = set(gone)
                told = dict(port.wait(PATIENCE))
                assert stays.fileno() in told
                assert not before & told.keys()
        assert list(port.wait(0.0)) == [(stays.fileno(), READ)]

    def test_another_thread_may_unregister_during_a_modify(self, port: ReadinessBackend, pair: Pair) -> None:
        """However the two calls meet, the descriptor is not registered afterwards."""
        number = pair[0].fileno()
        pair[1].send(b"x")
        with switching_often():
            for _ in range(300):
                port.register(number, READ)
                with beside(partial(port.unregister, number)):
                    with pytest.raises(FileNotFoundError):
                        _modify_for_ever(port, number)
                assert list(port.wait(0.0)) == []

    def test_another_thread_may_close_during_a_change(
        self, make_port: Callable[[], ReadinessBackend], make_pair: PairMaker
    ) -> None:
        """Whatever `close` has already done, the only error is BackendClosedError."""
        (one, _), (other, _) = make_pair(), make_pair()
        with switching_often():
            for _ in range(60):
                port = make_port()
                port.register(one.fileno(), READ)
                with beside(port.close):
                    with pytest.raises(BackendClosedError):
                        _change_for_ever(port, one.fileno(), other.fileno())

    def test_finalizer_may_close_inside_a_wait(
        self, make_port: Callable[[], ReadinessBackend], make_pair: PairMaker
    ) -> None:
        pairs = [make_pair() for _ in range(5)]
        for _, other in pairs:
            other.send(b"x")
        ready = {(one.fileno(), READ) for one, _ in pairs}
        for allocations in range(1, 40):
            port = make_port()
            for one, _ in pairs:
                port.register(one.fileno(), READ)
            with collected_inside(port.close, allocations):
                assert _events_unless_closed(port) <= ready
            with pytest.raises(BackendClosedError):
                port.wait(0.0)

    def test_close_in_another_thread_ends_a_wait_with_events(
        self, make_port: Callable[[], ReadinessBackend], make_pair: PairMaker
    ) -> None:
        """The wait may report events that come while it is closed; no other does."""
        for _ in range(20):
            port, (one, other) = make_port(), make_pair()
            port.register(one.fileno(), READ)

            def send_and_close(port: ReadinessBackend = port, other: socket.socket = other) -> None:
                other.send(b"x")
                port.close()

            with beside(send_and_close):
                assert _events_unless_closed(port) <= {(one.fileno(), READ)}
            with pytest.raises(BackendClosedError):
                port.wait(0.0)

    @ALARMS
    def test_signal_handler_may_close_inside_a_wait(
        self, port: ReadinessBackend, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        port.register(pair[0].fileno(), READ)
        on_alarm(port.close)
        _ends(port)

    def test_another_thread_may_close_during_a_wait(
        self, make_port: Callable[[], ReadinessBackend], pair: Pair
    ) -> None:
        for _ in range(10):
            port = make_port()
            port.register(pair[0].fileno(), READ)
            with beside(port.close):
                _ends(port)
            pair[1].send(b"x")
            assert pair[0].recv(1) == b"x"


def _first_events(port: ReadinessBackend) -> list[tuple[int, int]]:
    """Wait until an event is reported: an unregistered descriptor may end a wait without events."""
    while True:
        events = list(port.wait(PATIENCE))
        if events:
            return events


def _modify_for_ever(port: ReadinessBackend, number: int) -> None:
    while True:
        port.modify(number, READ | WRITE)
        port.modify(number, READ)


def _change_for_ever(port: ReadinessBackend, registered: int, other: int) -> None:
    while True:
        port.modify(registered, READ | WRITE)
        port.register(other, READ)
        port.unregister(other)


def _events_unless_closed(port: ReadinessBackend) -> set[tuple[int, int]]:
    """Wait once in a backend that is being closed elsewhere."""
    try:
        return set(port.wait(None))
    except BackendClosedError:
        return set()


def _ends(port: ReadinessBackend) -> None:
    """Wait in a backend that is being closed elsewhere."""
    try:
        while True:
            assert list(port.wait(None)) == []
    except BackendClosedError:
        pass
    with pytest.raises(BackendClosedError):
        port.wait(0.0)
