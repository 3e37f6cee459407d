"""What only ppoll has: signals that are delivered in a wait, and nowhere else."""

import signal
from collections.abc import Iterator

import pytest
from loopcore_backend_ppoll import PpollBackend


class Delivered(Exception):
    pass


def deliver(signum: int, frame: object) -> None:
    raise Delivered


@pytest.fixture
def blocked() -> Iterator[None]:
    """SIGUSR1 is blocked, and has a handler that raises."""
    handler = signal.signal(signal.SIGUSR1, deliver)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGUSR1, handler)


def test_signal_that_came_before_the_wait_is_delivered_in_it(blocked: None) -> None:
    backend = PpollBackend(deliver=[signal.SIGUSR1])
    signal.raise_signal(signal.SIGUSR1)  # for this thread, whatever others there are
    assert signal.SIGUSR1 in signal.sigpending()
    with pytest.raises(Delivered):
        backend.wait(30.0)
    assert signal.SIGUSR1 not in signal.sigpending()
    backend.close()


def test_mask_of_the_thread_is_as_before_after_a_wait(blocked: None) -> None:
    backend = PpollBackend(deliver=[signal.SIGUSR1])
    backend.wait(0.0)
    assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    backend.close()


def test_signal_that_is_not_to_be_delivered_stays_pending(blocked: None) -> None:
    backend = PpollBackend()
    signal.raise_signal(signal.SIGUSR1)  # for this thread, whatever others there are
    assert list(backend.wait(0.001)) == []
    assert signal.SIGUSR1 in signal.sigpending()
    backend.close()
