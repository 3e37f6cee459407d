"""What only uring has: a ring that belongs to a thread, buffers that connections share, sends without a completion.

The contract of completion ports, with and without its features, is in tests/backends/completion.
"""

import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from loopcore.errors import BackendUnavailableError, UsageError
from loopcore.interest import WRITE
from loopcore.operations import Accept, Connect, Poll, Read, Receive, ReceiveFrom, Send, SendTo, WaitProcess
from loopcore_backends.uring import UringBackend, features
from tests.backends.completion.ledger import PATIENCE, Ledger

AVAILABLE = UringBackend.probe()
needs_uring = pytest.mark.skipif(not AVAILABLE.available, reason=AVAILABLE.reason or "available")
LARGE = 65536


@pytest.fixture
def make_port() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(*without: str) -> Any:
        made.append(UringBackend(without))
        return made[-1]

    yield make
    for port in made:
        port.close()


@pytest.fixture
def port(make_port: Callable[..., Any]) -> Any:
    return make_port()


@pytest.fixture
def ledger(port: Any) -> Ledger:
    return Ledger(port)


@pytest.fixture
def make_pair() -> Iterator[Callable[[], tuple[socket.socket, socket.socket]]]:
    made: list[socket.socket] = []

    def make() -> tuple[socket.socket, socket.socket]:
        one, other = socket.socketpair()
        for end in (one, other):
            end.setblocking(False)
            made.append(end)
        return one, other

    yield make
    for end in made:
        end.close()


@pytest.fixture
def pair(make_pair: Callable[[], tuple[socket.socket, socket.socket]]) -> tuple[socket.socket, socket.socket]:
    return make_pair()


def send_of(sock: socket.socket, *buffers: Any, quiet: bool = False) -> Send:
    sending = Send(sock.fileno())
    sending.buffers = buffers
    sending.quiet = quiet
    return sending


def fill(sock: socket.socket) -> int:
    """Send until there is no room; return how many bytes went."""
    size = 0
    try:
        while True:
            size += sock.send(b"x" * LARGE)
    except BlockingIOError:
        return size


def in_thread(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


# Masks and refusals


def test_unknown_mask_is_refused_with_what_there_is(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "bundles, multishots")
    with pytest.raises(
        UsageError, match=r"LOOPCORE_URING_WITHOUT names multishots; it can name defer_taskrun, .*bundles"
    ):
        features.masked()


def test_unknown_mask_of_an_argument_is_refused():
    with pytest.raises(UsageError, match="without= names nothing_such"):
        features.masked(["nothing_such"])


def test_masks_of_the_environment_and_of_the_argument_add_up(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "bundles,")
    assert features.masked(["files"]) == {"bundles", "files"}


@needs_uring
def test_wrong_mask_makes_the_backend_unavailable_with_the_reason(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "bundle")
    assert not UringBackend.probe().available
    assert "names bundle; it can name" in UringBackend.probe().reason


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errno.ENOSYS, "has no io_uring"),
        (errno.EPERM, "forbidden"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENOMEM, "ulimit -l"),
        (errno.EIO, "fails"),
    ],
)
def test_refusal_says_what_to_do(error, words):
    assert words in features.refusal_by_error(error)


@pytest.mark.parametrize(
    ("switch", "words"), [("2\n", "disabled is 2"), ("1\n", "io_uring_group"), ("0\n", "seccomp"), (None, "seccomp")]
)
def test_refusal_names_who_forbids(monkeypatch, tmp_path, switch, words):
    path = tmp_path / "io_uring_disabled"
    if switch is not None:
        path.write_text(switch)
    monkeypatch.setattr(features, "SWITCH", str(path))
    assert words in features.refusal_by_error(errno.EPERM)


def test_an_old_kernel_is_refused_with_its_release():
    known = features.decide(0, frozenset(), True, frozenset())
    assert "needs Linux 5.19 or newer" in features.refusal_by_kernel(0, frozenset(), known)


@needs_uring
def test_without_a_descriptor_for_the_ring_the_constructor_says_so():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))  # one more: the waker
    try:
        with pytest.raises(BackendUnavailableError, match=r"no descriptor left for the ring .*ulimit -n"):
            UringBackend()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Threads


@needs_uring
@pytest.mark.parametrize("mask", [(), ("defer_taskrun",)])
def test_port_made_in_one_thread_works_in_another(make_port, pair, mask):
    ledger = Ledger(make_port(*mask))
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.submit(receiving)

    def work() -> None:
        ledger.submit(send_of(pair[1], b"hello"))
        assert ledger.result_of(receiving) == b"hello"

    in_thread(work)


@needs_uring
@pytest.mark.parametrize("mask", [(), ("defer_taskrun",)])
def test_what_is_in_flight_moves_with_the_port_to_another_thread(make_port, make_pair, mask):
    port = make_port(*mask)
    ledger = Ledger(port)
    one, other = make_pair()
    full, reader = make_pair()
    before = fill(full)
    receiving, polling, sending = Receive(one.fileno(), LARGE), Poll(full.fileno(), WRITE), send_of(full, b"last")
    ledger.submit(receiving, polling, sending)
    ledger.wait(0.0)

    def work() -> None:
        other.send(b"first")
        assert ledger.result_of(receiving) == b"first"

    in_thread(work)
    other.send(b"second")  # the thread that began the receive again has ended
    assert ledger.result_of(receiving) == b"second"
    came = b""
    while len(came) < before + 4:
        ledger.wait(0.01)
        try:
            came += reader.recv(1 << 20)
        except BlockingIOError:
            pass
    assert came.endswith(b"xlast")
    assert ledger.result_of(sending) == 4
    assert ledger.result_of(polling) & WRITE


@needs_uring
def test_an_operation_that_was_never_begun_can_be_cancelled_in_another_thread(ledger, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    ledger.wait(0.0)
    ledger.submit(receiving)
    in_thread(lambda: ledger.cancel(receiving))
    assert ledger.result_of(receiving).errno == errno.ECANCELED


@needs_uring
def test_wake_ends_a_wait_of_the_new_thread(port):
    port.wait(0.0)

    def work() -> None:
        port.wake()
        start = monotonic()
        assert port.wait(PATIENCE) == []
        assert monotonic() - start < PATIENCE

    in_thread(work)


# Queues


@needs_uring
@pytest.mark.parametrize("mask", [(), ("defer_taskrun",)])
def test_more_completions_than_the_queue_holds_are_all_told(make_port, pair, mask):
    ledger = Ledger(make_port(*mask))
    polls = [Poll(pair[0].fileno(), WRITE) for _ in range(10_000)]
    ledger.submit(*polls)
    while ledger.in_flight:
        assert ledger.wait(PATIENCE)
    assert all(ledger.results[poll] == [WRITE] for poll in polls)


@needs_uring
def test_completions_that_overflowed_while_others_were_cancelled_are_told(ledger, make_pair):
    """Each byte is a poll's completion; the cancelling of a last one takes them all from the kernel."""
    one, other = make_pair()
    polls = [Poll(one.fileno(), 1) for _ in range(6_000)]
    last = Poll(make_pair()[0].fileno(), 1)
    ledger.submit(*polls, last)
    ledger.wait(0.0)
    while ledger.port.wait(0.0):
        pass
    other.send(b"x")
    ledger.cancel(last)
    while ledger.in_flight:
        assert ledger.wait(PATIENCE)
    assert all(len(ledger.results[poll]) == 1 for poll in polls)


# Buffers


@needs_uring
@pytest.mark.parametrize(
    "mask", [(), ("incremental",), ("incremental", "bundles"), ("multishot_receive",), ("buffer_ring",)]
)
def test_more_data_than_buffers_arrives_whole(make_port, make_pair, mask):
    ledger = Ledger(make_port(*mask))
    pairs = [make_pair() for _ in range(70)]
    sizes = [fill(other) for _, other in pairs]
    receives = [Receive(one.fileno(), LARGE) for one, _ in pairs]
    ledger.submit(*receives)
    for receiving, size in zip(receives, sizes, strict=True):
        came = 0
        while came < size:
            came += len(ledger.result_of(receiving))
            if receiving not in ledger.in_flight and came < size:
                ledger.submit(receiving)
        assert came == size


@needs_uring
@pytest.mark.parametrize("mask", [(), ("incremental",), ("incremental", "bundles")])
def test_buffers_that_came_back_in_another_order_hold_what_they_should(make_port, pair, mask):
    """Of a bundle they no longer lie side by side."""
    port = make_port(*mask)
    receiving = Receive(pair[0].fileno(), 1 << 20)
    receiving.lend = True
    port.submit(receiving)
    loans = []
    for number in range(20):
        pair[1].send(bytes([number]) * 100)
        loans += [result for operation, result, _ in port.wait(PATIENCE) if operation is receiving]
    assert b"".join(bytes(loan.view) for loan in loans) == b"".join(bytes([n]) * 100 for n in range(20))
    for loan in reversed(loans):
        loan.give_back()
    message = os.urandom(LARGE)
    for _ in range(60):  # round the whole ring
        pair[1].send(message)
        came = b""
        while len(came) < len(message):
            for _, result, _ in port.wait(PATIENCE):
                came += bytes(result.view)
                result.give_back()
        assert came == message


@needs_uring
@pytest.mark.parametrize("mask", [(), ("incremental",)])
@pytest.mark.parametrize("size", [4, 5000])
def test_what_nobody_gives_back_does_not_stop_the_others(make_port, pair, mask, size):
    port = make_port(*mask)
    receiving = Receive(pair[0].fileno(), LARGE)
    receiving.lend = True
    port.submit(receiving)
    loans = []
    for number in range(1500):  # more than there are buffers
        pair[1].send(number.to_bytes(4, "big") * (size // 4))
        loans += [result for _, result, _ in port.wait(PATIENCE)]
    expected = b"".join(number.to_bytes(4, "big") * (size // 4) for number in range(1500))
    assert b"".join(bytes(loan.view) for loan in loans) == expected
    for loan in loans:
        loan.give_back()
    pair[1].send(b"and on")
    assert [bytes(result.view) for _, result, _ in port.wait(PATIENCE)] == [b"and on"]


@needs_uring
def test_what_is_lent_can_be_read_after_the_port_is_closed(port, pair):
    receiving = Receive(pair[0].fileno(), LARGE)
    receiving.lend = True
    port.submit(receiving)
    pair[1].send(b"kept")
    ((_, loan, _),) = port.wait(PATIENCE)
    port.close()
    assert bytes(loan.view) == b"kept"
    loan.give_back()
    with pytest.raises(ValueError, match="released"):
        bytes(loan.view)


# Sends


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
def test_quiet_send_to_nobody_is_told_as_an_error(ledger, pair):
    pair[1].close()
    sending = send_of(pair[0], b"lost", quiet=True)
    ledger.submit(sending)
    assert ledger.result_of(sending).errno == errno.EPIPE


@needs_uring
@pytest.mark.parametrize("count", [2, 8, 9, 1024, 1500])
def test_vector_of_any_length_arrives_in_order(ledger, pair, count):
    parts = [bytes([number % 256]) * 3 for number in range(count)]
    sending = Send(pair[0].fileno())
    sending.buffers = parts
    sending.head = 2
    ledger.submit(sending)
    sent = ledger.result_of(sending)
    whole = b"".join(parts)[2:]
    assert sent == min(len(whole), 3 * 1024 - 2)
    assert pair[1].recv(LARGE) == whole[:sent]


# Datagrams


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


# Ends


@needs_uring
def test_a_connection_that_nobody_was_told_of_is_closed_with_the_port(port, pair):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        listener.setblocking(False)
        accepting, other = Accept(listener.fileno()), Receive(pair[0].fileno(), LARGE)
        port.submit(accepting)
        port.submit(other)
        port.wait(0.0)
        client.connect(listener.getsockname())
        port.cancel(other)  # takes the connection from the kernel, too
        assert set(port.close()) == {accepting, other}
        client.settimeout(PATIENCE)
        assert client.recv(1) == b""


@needs_uring
def test_connect_that_moves_to_another_thread_ends_as_it_would_have(ledger):
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener, socket.socket() as client:
        client.setblocking(False)
        connecting = Connect(client.fileno(), listener.getsockname())
        ledger.submit(connecting)
        ledger.port.wake()

        def work() -> None:
            assert ledger.result_of(connecting) is None

        in_thread(work)


@needs_uring
def test_exit_of_a_process_is_told_as_wait_would(ledger):
    def child(how: Callable[[], Any]) -> int:
        pid = os.fork()
        if pid == 0:
            how()
            os._exit(99)
        return pid

    cases = [(lambda: os._exit(7), 7), (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL)]
    for how, code in cases:
        waiting = WaitProcess(child(how))
        ledger.submit(waiting)
        assert os.waitstatus_to_exitcode(ledger.result_of(waiting)) == code


@needs_uring
@pytest.mark.parametrize("mask", [(), ("buffer_ring",)])
def test_read_of_a_pipe_waits_for_data_and_can_be_cancelled(make_port, mask):
    ledger = Ledger(make_port(*mask))
    reader, writer = os.pipe()
    try:
        for end in (reader, writer):
            os.set_blocking(end, False)
        reading = Read(reader, LARGE)
        ledger.submit(reading)
        assert ledger.wait(0.01) == []
        os.write(writer, b"came")
        assert ledger.result_of(reading) == b"came"
        ledger.submit(reading)
        ledger.wait(0.0)
        ledger.cancel(reading)
        assert ledger.result_of(reading).errno == errno.ECANCELED
    finally:
        os.close(reader)
        os.close(writer)
