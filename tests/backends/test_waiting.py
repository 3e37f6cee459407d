"""How long a wait lasts, and what ends it: wakes, signals, time.

No test here says how fast something is. A wait that nothing ends lasts at least its timeout, so one that is
over before was ended by something; PATIENCE is a timeout that is waited out only when a test fails.
"""

import signal
import threading

import pytest

from loopcore.interest import READ, WRITE

pytestmark = pytest.mark.loopcore_only

PATIENCE = 30.0


@pytest.fixture
def on_alarm():
    """Sets a handler for SIGALRM and sends the signal that many seconds from now."""
    before = signal.getsignal(signal.SIGALRM)

    def arm(handler, delay=0.01):
        signal.signal(signal.SIGALRM, lambda signum, frame: handler())
        signal.setitimer(signal.ITIMER_REAL, delay)

    yield arm
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("timeout", [1e-9, 1e-6, 0.0001, 0.00099, 0.001, 0.0010001, 0.0105, 0.05])
def test_wait_never_ends_before_its_timeout(backend, elapsed, timeout):
    for _ in range(5):
        assert elapsed(backend, timeout) >= timeout


def test_zero_only_looks(backend, pair, elapsed):
    backend.register(pair[0].fileno(), READ)
    assert elapsed(backend, 0.0) < PATIENCE
    assert list(backend.wait(0)) == []


def test_none_waits_until_something_is_ready(backend, pair):
    backend.register(pair[0].fileno(), READ)
    sender = threading.Thread(target=pair[1].send, args=(b"x",))
    sender.start()
    assert list(backend.wait(None)) == [(pair[0].fileno(), READ)]
    sender.join()


@pytest.mark.parametrize("timeout", [1e7, 1e12, 1e300, float("inf")])
def test_timeout_longer_than_the_system_call_can_say_is_accepted(backend, timeout):
    backend.wake()
    assert list(backend.wait(timeout)) == []


def test_wake_before_wait_is_not_lost(backend, elapsed):
    backend.wake()
    assert elapsed(backend, PATIENCE) < PATIENCE


def test_wake_is_not_an_event(backend):
    backend.wake()
    assert list(backend.wait(None)) == []


def test_wake_does_not_hide_events(backend, pair):
    backend.register(pair[0].fileno(), WRITE)
    backend.wake()
    assert list(backend.wait(None)) == [(pair[0].fileno(), WRITE)]


def test_wakes_coalesce(backend, elapsed):
    for _ in range(3):
        backend.wake()
    for _ in range(3):
        assert list(backend.wait(0.0)) == []
    assert elapsed(backend, 0.02) >= 0.02


def test_wake_is_spent_by_one_wait(backend, elapsed):
    for _ in range(3):
        backend.wake()
        assert elapsed(backend, PATIENCE) < PATIENCE
        assert elapsed(backend, 0.02) >= 0.02


def test_100000_wakes_that_nobody_waits_for_do_not_block(backend, elapsed):
    for _ in range(100_000):
        backend.wake()
    assert elapsed(backend, PATIENCE) < PATIENCE
    assert elapsed(backend, 0.02) >= 0.02
    backend.wake()
    assert elapsed(backend, PATIENCE) < PATIENCE


def test_wake_from_a_thread_ends_a_wait(backend, elapsed):
    for _ in range(100):
        waker = threading.Thread(target=backend.wake)
        waker.start()
        assert elapsed(backend, PATIENCE) < PATIENCE
        waker.join()
        backend.wait(0.0)


def test_no_wake_of_a_busy_thread_is_lost(backend, elapsed):
    # As the loop's inbox does it: the message first, then the wake. The thread sends the next one when asked to.
    inbox: list[int] = []
    asked = threading.Semaphore(0)
    rounds = 1000

    def send_when_asked():
        for number in range(rounds):
            asked.acquire()
            inbox.append(number)
            backend.wake()

    thread = threading.Thread(target=send_when_asked)
    thread.start()
    for number in range(rounds):
        asked.release()
        while not inbox:
            assert elapsed(backend, PATIENCE) < PATIENCE
        assert inbox.pop() == number
    thread.join()


def test_wakes_from_many_threads_leave_the_backend_calm(backend, elapsed):
    threads = [threading.Thread(target=lambda: [backend.wake() for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for number, _ in backend.wait(0.0):
            with pytest.raises(FileNotFoundError):  # a late wake: a descriptor that nobody registered
                backend.unregister(number)
    for thread in threads:
        thread.join()
    for _ in range(2):
        backend.wait(0.0)
    assert list(backend.wait(0.0)) == []
    assert elapsed(backend, 0.02) >= 0.02


def test_wake_from_a_signal_handler_ends_a_wait(backend, elapsed, on_alarm):
    on_alarm(backend.wake)
    assert elapsed(backend, PATIENCE) < PATIENCE


def test_signal_handler_that_returns_does_not_end_a_wait(backend, elapsed, on_alarm):
    handled = []
    on_alarm(lambda: handled.append(True), 0.005)
    assert elapsed(backend, 0.05) >= 0.05
    assert handled


def test_signal_handler_that_raises_ends_a_wait(backend, pair, on_alarm):
    def interrupt():
        raise KeyboardInterrupt

    on_alarm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        backend.wait(PATIENCE)
    backend.register(pair[0].fileno(), WRITE)
    assert list(backend.wait(0.0)) == [(pair[0].fileno(), WRITE)]


def test_wake_while_closing_touches_no_descriptor_of_others(make_backend, make_pair):
    # A wake that outlives its backend must not write into the file that got the number next.
    for _ in range(100):
        backend = make_backend()
        stop = threading.Event()

        def wake_until_told(backend=backend, stop=stop):
            while not stop.is_set():
                backend.wake()

        thread = threading.Thread(target=wake_until_told)
        thread.start()
        backend.close()
        pair = make_pair()
        stop.set()
        thread.join()
        for end in pair:
            with pytest.raises(BlockingIOError):
                end.recv(64)
        for end in pair:
            end.close()
