"""Sends of which no completion tells, vectors, datagrams."""

import errno
import os
import socket
from time import monotonic

import pytest

from loopcore.ports.operations import Receive, ReceiveFrom, Send, SendTo
from loopcore.testing.conformance.completion.signals import Interrupted, interrupt, wait_for_alarm
from loopcore.testing.conformance.ledger import PATIENCE, Ledger
from loopcore.testing.conformance.surroundings import alarms
from tests.backends.uring.kit import LARGE, fill, in_thread, needs_uring, send_of


@needs_uring
def test_quiet_send_does_not_end_a_wait_and_is_told_with_what_does(port, pair):
    sending = send_of(pair[0], b"quiet", quiet=True)
    port.submit(sending)
    assert port.wait(0.02) == [(sending, 5, False)]
    port.submit(sending)
    port.wake()
    assert (sending, 5, False) in [*port.wait(PATIENCE), *port.wait(0.0)]


@needs_uring
def test_send_that_is_no_longer_quiet_ends_the_wait(port, pair):
    sending = send_of(pair[0], b"loud", quiet=True)
    port.submit(sending)
    sending.quiet = False
    assert port.wait(PATIENCE) == [(sending, 4, False)]


@needs_uring
def test_quiet_send_that_finds_no_room_waits_for_it(ledger, pair):
    before = fill(pair[0])
    sending = send_of(pair[0], b"after all", quiet=True)
    ledger.submit(sending)
    assert ledger.wait(0.01) == []
    came = b""
    while len(came) < before + 9:
        ledger.wait(0.0)
        try:
            came += pair[1].recv(1 << 20)
        except BlockingIOError:
            pass
    assert came.endswith(b"after all")
    assert ledger.result_of(sending) == 9


@needs_uring
def test_send_whose_peer_has_ended_its_half_can_be_cancelled(ledger, pair):
    # Over Unix sockets a kernel thread blocks in it, and is not found while the send is on its way there.
    pair[1].shutdown(socket.SHUT_WR)
    fill(pair[0])
    sending = send_of(pair[0], b"x" * LARGE)
    ledger.submit(sending)
    assert ledger.wait(0.0) == []
    with alarms() as on_alarm:
        on_alarm(interrupt, 20)
        ledger.cancel(sending)
    assert ledger.result_of(sending).errno == errno.ECANCELED


@needs_uring
def test_quiet_send_to_nobody_is_told_as_an_error(ledger, pair):
    pair[1].close()
    sending = send_of(pair[0], b"lost", quiet=True)
    ledger.submit(sending)
    assert ledger.result_of(sending).errno == errno.EPIPE


@needs_uring
@pytest.mark.parametrize(("count", "size"), [(2, 3), (2, 3000), (8, 600), (9, 600), (1000, 4), (1024, 5), (1500, 5)])
def test_vector_of_any_length_arrives_in_order(ledger, pair, count, size):
    parts = [bytes([number % 256]) * size for number in range(count)]
    sending = Send(pair[0].fileno())
    sending.buffers = parts
    sending.head = 2
    ledger.submit(sending)
    sent = ledger.result_of(sending)
    whole = b"".join(parts)[2:]
    assert sent == min(len(whole), size * 1024 - 2)
    assert pair[1].recv(LARGE) == whole[:sent]


@needs_uring
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("mask", [(), ("multishot_receive",)])
def test_longest_datagram_arrives_whole_with_its_address(make_port, host, mask):
    ledger = Ledger(make_port(*mask))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one, socket.socket(family, socket.SOCK_DGRAM) as other:
        for sock in (one, other):
            try:
                sock.bind((host, 0))
            except OSError:
                pytest.skip("no IPv6 here")
            sock.setblocking(False)
        receiving = ReceiveFrom(one.fileno(), 256 * 1024)
        payload = os.urandom(65_507)
        ledger.submit(receiving, SendTo(other.fileno(), payload, one.getsockname()))
        assert ledger.result_of(receiving) == (payload, other.getsockname())
        ledger.cancel(*ledger.in_flight)


@needs_uring
def test_datagram_of_a_path_may_be_longer_than_a_buffer(ledger, tmp_path):
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        path = str(tmp_path / "one")
        one.bind(path)
        for sock in (one, other):
            sock.setblocking(False)
        payload = os.urandom(100_000)
        receiving = ReceiveFrom(one.fileno(), 256 * 1024)
        ledger.submit(receiving, SendTo(other.fileno(), payload, path))
        assert ledger.result_of(receiving) == (payload, None)
        ledger.cancel(*ledger.in_flight)


@needs_uring
@pytest.mark.parametrize("mask", [(), ("inline_sends",)])
def test_quiet_send_of_which_only_a_part_went_ends_the_wait(make_port, pair, mask):
    """The rest is to be sent by who asked: that is no success."""
    port = make_port(*mask)
    sending = send_of(pair[0], bytes(10_000_000), quiet=True)
    port.submit(sending)
    start = monotonic()
    ((operation, sent, _),) = port.wait(PATIENCE)
    assert operation is sending
    assert 0 < sent < 10_000_000
    assert monotonic() - start < PATIENCE


@needs_uring
def test_quiet_send_that_was_done_before_somebody_waited_for_it_ends_the_wait(port, make_pair):
    one, other = make_pair()
    sending, receiving = send_of(one, b"done", quiet=True), Receive(other.fileno(), LARGE)
    port.submit(receiving)
    port.wait(0.0)
    port.submit(sending)
    port.cancel(receiving)  # enters the kernel
    while port.wait(0.0):
        pass
    port.submit(receiving)
    port.wait(0.0)
    port.submit(sending)
    port.cancel(receiving)
    sending.quiet = False
    assert (sending, 4, False) in port.wait(PATIENCE)


@needs_uring
def test_quiet_send_of_an_interrupted_wait_that_somebody_waits_for_by_now_ends_the_next(port, pair):
    """Compiled, the interrupted wait has seen its success already."""
    sending = send_of(pair[0], b"done", quiet=True)
    port.submit(sending)
    with alarms() as on_alarm:
        with pytest.raises(Interrupted):
            wait_for_alarm(port, on_alarm)
        sending.quiet = False
        on_alarm(interrupt, PATIENCE)  # or else it would never end
        assert port.wait(2 * PATIENCE) == [(sending, 4, False)]


@needs_uring
def test_receive_of_datagrams_begun_by_another_thread_goes_on(ledger):
    ledger.wait(0.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.setblocking(False)
        receiving = ReceiveFrom(one.fileno(), LARGE)

        def work() -> None:
            ledger.submit(receiving, SendTo(one.fileno(), b"to myself", one.getsockname()))
            ledger.wait(0.0)  # woken: the first wait of this thread begins what was submitted before it
            assert ledger.result_of(receiving) == (b"to myself", one.getsockname())
            ledger.cancel(receiving)
            assert ledger.result_of(receiving).errno == errno.ECANCELED

        in_thread(work)
