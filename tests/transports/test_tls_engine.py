"""The TLS engine by itself: two of them, and bytes carried by hand."""

import itertools
import ssl
from typing import Any

import pytest

from loopcore.transports.tls_engine import BATCH_LIMIT, RECORD_LIMIT, TRANSITIONS, TlsEngine
from tests.transports.tls_support import client_context, server_context, stranger_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
CIPHERTEXT_LIMIT = 120 * 1024


def pair(
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, context: ssl.SSLContext | None = None
) -> tuple[TlsEngine, TlsEngine]:
    """A client and a server, which has `context` if there is one."""
    theirs = context or server_context()
    theirs.maximum_version = version
    client, server = TlsEngine(client_context(), False, "localhost"), TlsEngine(theirs, True, None)
    client.start()
    server.start()
    return client, server


def carry(sender: TlsEngine, receiver: TlsEngine, piece: int = 1 << 20) -> int:
    """Give what `sender` has to say to `receiver`, in pieces; return how much it was."""
    data = b"".join(iter(sender.take_ciphertext, b""))
    for start in range(0, len(data), piece):
        receiver.receive(data[start : start + piece])
    return len(data)


def agree(client: TlsEngine, server: TlsEngine) -> None:
    for _ in range(4):
        for one, other in ((client, server), (server, client)):
            if not one.agreed:
                one.shake_hands()
            carry(one, other)
    assert client.agreed
    assert server.agreed
    assert client.read() == b""  # what TLS 1.3 sends after the handshake


@pytest.fixture(params=VERSIONS, ids=["TLS 1.2", "TLS 1.3"])
def engines(request: pytest.FixtureRequest) -> tuple[TlsEngine, TlsEngine]:
    client, server = pair(request.param)
    agree(client, server)
    return client, server


def put(engine: TlsEngine, *items: bytes) -> None:
    for item in items:
        engine.write(item, len(item))


@pytest.mark.parametrize("size", [1, RECORD_LIMIT, RECORD_LIMIT + 1, 5 * RECORD_LIMIT + 7])
def test_what_is_written_is_read(engines: tuple[TlsEngine, TlsEngine], size: int) -> None:
    for one, other in itertools.permutations(engines):
        data = bytes(number % 251 for number in range(size))
        put(one, data)
        carry(one, other)
        assert other.read() == data
        assert other.read() == b""


def test_records_may_come_in_pieces(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    put(client, b"hello")
    sealed = client.take_ciphertext()
    for position in range(len(sealed) - 1):
        server.receive(sealed[position : position + 1])
        assert server.read() == b""
    server.receive(sealed[len(sealed) - 1 :])
    assert server.read() == b"hello"


@pytest.mark.parametrize("piece", [1000, RECORD_LIMIT + 100, 40_000, CIPHERTEXT_LIMIT, 1 << 20])
def test_many_records_may_be_cut_anywhere(engines: tuple[TlsEngine, TlsEngine], piece: int) -> None:
    client, server = engines
    data = bytes(number % 251 for number in range(300_000))
    put(client, data)
    sealed = b"".join(iter(client.take_ciphertext, b""))
    got = b""
    for start in range(0, len(sealed), piece):
        server.receive(sealed[start : start + piece])
        part = server.read()
        assert not server.readable()
        assert hash(part) == hash(bytes(bytearray(part)))
        got += part
    assert got == data


def test_many_small_records_are_read_together(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    sealed = b""
    for number in range(2000):
        put(client, bytes([number % 251]))
        sealed += client.take_ciphertext()
    server.receive(sealed)
    assert server.read() == bytes(number % 251 for number in range(2000))


def test_a_program_s_own_ssl_object_is_read_by_its_method() -> None:
    asked: list[int] = []

    class Counting(ssl.SSLObject):
        def read(self, *args: Any) -> Any:
            asked.append(len(args))
            return super().read(*args)

    theirs = server_context()
    theirs.sslobject_class = Counting
    client, server = pair(context=theirs)
    agree(client, server)
    put(client, bytes(100_000))
    carry(client, server)
    assert server.read() == bytes(100_000)
    assert len(asked) >= 7
    assert set(asked) == {1}  # the size, and no buffer: nobody's Python code sees memory that becomes bytes


def test_what_is_written_in_the_handshake_waits_for_its_end() -> None:
    client, server = pair()
    put(client, b"early")
    assert client.unencrypted == 5
    agree_but_for_reading(client, server)
    assert client.unencrypted == 0
    assert server.read() == b"early"


def agree_but_for_reading(client: TlsEngine, server: TlsEngine) -> None:
    while not (client.agreed and server.agreed):
        for one, other in ((client, server), (server, client)):
            if not one.agreed:
                one.shake_hands()
            carry(one, other)


def test_small_writes_become_one_record(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    put(client, *[b"x" * 10] * 100)
    assert carry(client, server) < 1000 + 64
    assert server.read() == b"x" * 1000


@pytest.mark.parametrize(
    "sizes",
    [[3 * BATCH_LIMIT + 5], [1000] * 500, [10, 2 * BATCH_LIMIT, 10], [BATCH_LIMIT - 1, 2], [BATCH_LIMIT, 1]],
    ids=str,
)
def test_much_is_encrypted_in_batches_of_limited_size(sizes: list[int]) -> None:
    client, server = pair()
    agree(client, server)
    items = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    put(client, *items)
    left = client.unencrypted
    assert left == sum(sizes)
    while data := client.take_ciphertext():
        assert len(data) < CIPHERTEXT_LIMIT
        assert client.unencrypted == max(0, left - BATCH_LIMIT)
        left = client.unencrypted
        server.receive(data)
    assert server.read() == b"".join(items)


@pytest.mark.parametrize("size", [1, 7, RECORD_LIMIT, RECORD_LIMIT + 1, 1 << 17])
def test_reading_into_a_buffer_leaves_nothing_out(engines: tuple[TlsEngine, TlsEngine], size: int) -> None:
    client, server = engines
    data = bytes(number % 251 for number in range(3000 if size < 10 else 50_000))
    put(client, data)
    carry(client, server)
    buffer = memoryview(bytearray(size))
    got = b""
    while server.readable():
        count = server.read_into(buffer)
        got += buffer[:count]
    assert got == data


def test_reading_goes_on_after_a_record_that_was_read_in_part(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    put(client, b"0123456789")
    carry(client, server)
    buffer = memoryview(bytearray(4))
    assert server.read_into(buffer) == 4
    assert server.readable()
    assert server.read() == b"456789"


@pytest.mark.parametrize("after", [0, 5, 50_000])
@pytest.mark.parametrize("size", [4, 50_000])
def test_what_came_before_a_garbled_record_is_read_and_the_error_waits(
    engines: tuple[TlsEngine, TlsEngine], size: int, after: int
) -> None:
    client, server = engines
    put(client, bytes(size))
    carry(client, server)
    put(client, b"bad")
    sealed = bytearray(client.take_ciphertext())
    sealed[len(sealed) - 1] ^= 1
    server.receive(sealed)
    if after:
        put(client, bytes(after))
        carry(client, server)
    assert server.read() == bytes(size)
    assert isinstance(server.failure, ssl.SSLError)
    # OpenSSL's name for the garbled record (the second since 3.4 or so), not its error for the records after it.
    assert server.failure.reason in ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "RECORD_LAYER_FAILURE")
    assert not server.readable()
    put(server, b"an answer")
    assert server.take_ciphertext()  # the alert
    assert server.take_ciphertext() == b""
    server.end()
    assert server.failure is None


def test_the_session_is_closed_in_both_directions(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    put(client, b"last words")
    client.begin_close()
    carry(client, server)
    client.notify()
    carry(client, server)
    assert not client.peer_closed
    assert server.read() == b"last words"
    assert server.peer_closed
    put(server, b"unheard")
    server.begin_close()
    carry(server, client)
    assert client.drop() == 7
    server.notify()
    carry(server, client)
    assert client.drop() == 0
    assert client.peer_closed
    assert client.failure is None


def test_plaintext_that_nobody_read_is_no_obstacle_to_closing(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    put(client, b"x" * 50_000)
    carry(client, server)
    server.begin_close()
    server.notify()
    carry(server, client)
    assert client.read() == b""
    assert client.peer_closed


def test_an_unknown_authority_leaves_an_alert_for_the_peer() -> None:
    client, server = TlsEngine(stranger_context(), False, "localhost"), TlsEngine(server_context(), True, None)
    client.start()
    server.start()
    with pytest.raises(ssl.SSLCertVerificationError):
        agree(client, server)
    server.receive(client.take_outgoing())
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        server.shake_hands()


def test_facts_are_those_of_the_session(engines: tuple[TlsEngine, TlsEngine]) -> None:
    client, server = engines
    assert ("DNS", "localhost") in client.fact("peercert")["subjectAltName"]
    assert server.fact("peercert") is None
    assert client.fact("cipher") == server.fact("cipher")
    assert client.fact("compression") is None


def test_the_context_keeps_its_options() -> None:
    context = client_context()
    before = context.options
    TlsEngine(context, False, "localhost")
    assert context.options == before


def test_the_table_knows_no_way_back() -> None:
    assert all(following > state or (state, event) == (5, "ended") for (state, event), following in TRANSITIONS.items())
    assert {state for state, event in TRANSITIONS if event == "ended"} == set(range(6))


def test_what_the_table_does_not_list_is_an_error() -> None:
    engine = TlsEngine(client_context(), False, "localhost")
    with pytest.raises(RuntimeError, match="a TLS session that is idle cannot be closed"):
        engine.begin_close()
    engine.start()
    with pytest.raises(RuntimeError, match="a TLS session that is handshake cannot be started"):
        engine.start()
    engine.end()
    engine.end()
    with pytest.raises(RuntimeError, match="done"):
        engine.start()
