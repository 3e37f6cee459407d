"""How long a wait lasts, and what ends it: wakes, signals, time.

A wait that nothing ends lasts at least its timeout, so a shorter one was ended by something; PATIENCE is a timeout that
is waited in full only when a test fails. No test here measures speed, except that one wait of ten has to end SOON.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopcore.ports.interest import READ, WRITE
from loopcore.ports.readiness import ReadinessBackend
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.surroundings import PATIENCE, Elapsed, OnAlarm, Pair, PairMaker, is_soon, latency


class ReadinessWaits(Level):
    """How long a wait lasts, and what ends it: wakes, signals, time."""

    def test_wait_ends_soon_after_its_timeout(self, port: ReadinessBackend, pair: Pair, elapsed: Elapsed) -> None:
        port.register(pair[0].fileno(), READ)
        assert is_soon(lambda: elapsed(port, 0.01))

    def test_event_ends_a_wait_soon(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)

        def latency_of_an_event() -> float:
            lasted = latency(port.wait, lambda: pair[1].send(b"x"))
            pair[0].recv(1)
            return lasted

        assert is_soon(latency_of_an_event)

    def test_wake_ends_a_wait_soon(self, port: ReadinessBackend) -> None:
        assert is_soon(lambda: latency(port.wait, port.wake))

    @pytest.mark.parametrize("timeout", [1e-9, 1e-6, 0.0001, 0.00099, 0.001, 0.0010001, 0.0105, 0.05])
    def test_wait_never_ends_before_its_timeout(self, port: ReadinessBackend, elapsed: Elapsed, timeout: float) -> None:
        for _ in range(5):
            assert elapsed(port, timeout) >= timeout

    def test_zero_only_looks(self, port: ReadinessBackend, pair: Pair, elapsed: Elapsed) -> None:
        port.register(pair[0].fileno(), READ)
        assert elapsed(port, 0.0) < PATIENCE
        assert list(port.wait(0)) == []

    def test_none_waits_until_something_is_ready(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), READ)
        sender = threading.Thread(target=pair[1].send, args=(b"x",), daemon=True)
        sender.start()
        assert list(port.wait(None)) == [(pair[0].fileno(), READ)]
        sender.join()

    @pytest.mark.parametrize("timeout", [1e7, 1e12, 1e300, float("inf")])
    def test_timeout_longer_than_the_system_call_can_say_is_accepted(
        self, port: ReadinessBackend, timeout: float
    ) -> None:
        port.wake()
        assert list(port.wait(timeout)) == []

    def test_wake_before_wait_is_not_lost(self, port: ReadinessBackend, elapsed: Elapsed) -> None:
        port.wake()
        assert elapsed(port, PATIENCE) < PATIENCE

    def test_wake_is_not_an_event(self, port: ReadinessBackend) -> None:
        port.wake()
        assert list(port.wait(None)) == []

    def test_wake_does_not_hide_events(self, port: ReadinessBackend, pair: Pair) -> None:
        port.register(pair[0].fileno(), WRITE)
        port.wake()
        assert list(port.wait(None)) == [(pair[0].fileno(), WRITE)]

    def test_wakes_coalesce(self, port: ReadinessBackend, elapsed: Elapsed) -> None:
        for _ in range(3):
            port.wake()
        for _ in range(3):
            assert list(port.wait(0.0)) == []
        assert elapsed(port, 0.02) >= 0.02

    def test_wake_is_spent_by_one_wait(self, port: ReadinessBackend, elapsed: Elapsed) -> None:
        for _ in range(3):
            port.wake()
            assert elapsed(port, PATIENCE) < PATIENCE
            assert elapsed(port, 0.02) >= 0.02

    def test_100000_wakes_that_nobody_waits_for_do_not_block(self, port: ReadinessBackend, elapsed: Elapsed) -> None:
        for _ in range(100_000):
            port.wake()
        assert elapsed(port, PATIENCE) < PATIENCE
        assert elapsed(port, 0.02) >= 0.02
        port.wake()
        assert elapsed(port, PATIENCE) < PATIENCE

    def test_wake_from_a_thread_ends_a_wait(self, port: ReadinessBackend, elapsed: Elapsed) -> None:
        for _ in range(100):
            waker = threading.Thread(target=port.wake, daemon=True)
            waker.start()
            assert elapsed(port, PATIENCE) < PATIENCE
            waker.join()
            port.wait(0.0)

    def test_no_wake_of_a_busy_thread_is_lost(self, port: ReadinessBackend, elapsed: Elapsed) -> None:
        # As the loop's inbox does it: the message first, then the wake. The thread sends the next one when asked to.
        inbox: list[int] = []
        asked = threading.Semaphore(0)
        rounds = 1000

        def send_when_asked() -> None:
            for number in range(rounds):
                asked.acquire()
                inbox.append(number)
                port.wake()

        thread = threading.Thread(target=send_when_asked, daemon=True)
        thread.start()
        for number in range(rounds):
            asked.release()
            while not inbox:
                assert elapsed(port, PATIENCE) < PATIENCE
            assert inbox.pop() == number
        thread.join()

    def test_wakes_from_many_threads_leave_the_backend_calm(self, port: Any, elapsed: Elapsed) -> None:
        threads = [threading.Thread(target=lambda: [port.wake() for _ in range(500)], daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for number, _ in port.wait(0.0):
                with pytest.raises(FileNotFoundError):  # a late wake: a descriptor that is not registered
                    port.unregister(number)
        for thread in threads:
            thread.join()
        for _ in range(2):
            port.wait(0.0)
        assert list(port.wait(0.0)) == []
        assert elapsed(port, 0.02) >= 0.02

    def test_wake_from_a_signal_handler_ends_a_wait(
        self, port: ReadinessBackend, elapsed: Elapsed, on_alarm: OnAlarm
    ) -> None:
        on_alarm(port.wake)
        assert elapsed(port, PATIENCE) < PATIENCE

    def test_signal_handler_that_returns_does_not_end_a_wait(
        self, port: ReadinessBackend, elapsed: Elapsed, on_alarm: OnAlarm
    ) -> None:
        handled = []

        def handle() -> None:
            handled.append(True)
            if len(handled) < 3:
                on_alarm(handle, 0.01)  # on a busy machine the first may arrive before the wait

        on_alarm(handle, 0.005)
        assert elapsed(port, 0.05) >= 0.05
        assert handled

    def test_signal_handler_that_raises_ends_a_wait(
        self, port: ReadinessBackend, pair: Pair, on_alarm: OnAlarm
    ) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        def wait_for_alarm() -> None:
            on_alarm(interrupt)  # the alarm may arrive while it is being set
            port.wait(PATIENCE)

        with pytest.raises(KeyboardInterrupt):
            wait_for_alarm()
        port.register(pair[0].fileno(), WRITE)
        assert list(port.wait(0.0)) == [(pair[0].fileno(), WRITE)]

    def test_wake_while_closing_touches_no_descriptor_of_others(
        self, make_port: Callable[[], ReadinessBackend], make_pair: PairMaker
    ) -> None:
        # A wake that outlives its backend must not write into the file that gets the number next.
        for _ in range(100):
            port = make_port()
            stop = threading.Event()

            def wake_until_told(port: ReadinessBackend = port, stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    port.wake()

            thread = threading.Thread(target=wake_until_told, daemon=True)
            thread.start()
            port.close()
            pair = make_pair()
            stop.set()
            thread.join()
            for end in pair:
                with pytest.raises(BlockingIOError):
                    end.recv(64)
            for end in pair:
                end.close()
