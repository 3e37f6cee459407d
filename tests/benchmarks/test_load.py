"""The load generator against servers that misbehave: what is wrong or lost is counted, nothing is passed over."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.benchmarks.harness.native import NoCompilerError, compile_programs

Answer = Callable[[bytes], list[bytes]]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compile_programs(tmp_path_factory.mktemp("native")).load
    except NoCompilerError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def datagram_server(answer: Answer) -> Iterator[int]:
    """Sends what `answer` makes of a datagram, until it gets an empty one."""

    def serve() -> None:
        while True:
            data, peer = sock.recvfrom(2048)
            if not data:
                return
            for part in answer(data):
                sock.sendto(part, peer)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.sendto(b"", sock.getsockname())
            thread.join()


@contextlib.contextmanager
def stream_server(answer: Answer) -> Iterator[int]:
    """Serves one connection until its end."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(2048):
                connection.sendall(b"".join(answer(data)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def result_of(load: Path, port: int, *options: str) -> dict[str, float]:
    command = [str(load), "--port", str(port), "--warmup", "0", "--requests", "6", "--size", "64", *options]
    found = subprocess.run(command, input="go\n", capture_output=True, text=True, check=True, timeout=60)
    ready, result = found.stdout.splitlines()
    assert ready == "ready"
    answer: dict[str, float] = json.loads(result)
    return answer


def flipped(data: bytes) -> list[bytes]:
    return [data[:-1] + bytes([data[-1] ^ 1])]


def echoed(data: bytes) -> list[bytes]:
    return [data]


def test_an_echo_counts_when_it_is_right(load: Path) -> None:
    with stream_server(echoed) as port:
        result = result_of(load, port)
    assert (result["requests"], result["errors"], result["wrong"]) == (6, 0, 0)


def test_one_flipped_bit_in_a_stream_is_noticed(load: Path) -> None:
    with stream_server(flipped) as port:
        result = result_of(load, port)
    assert result["requests"] == 0
    assert result["wrong"] == 1
    assert result["errors"] == 1


def test_one_flipped_bit_in_a_datagram_is_noticed(load: Path) -> None:
    with datagram_server(flipped) as port:
        result = result_of(load, port, "--udp")
    assert result["requests"] == 0
    assert result["wrong"] == 1


def test_the_answer_to_an_earlier_request_is_not_taken_for_the_right_one(load: Path) -> None:
    first: list[bytes] = []

    def repeat(data: bytes) -> list[bytes]:
        first.append(data)
        return [first[0]]

    with stream_server(repeat) as port:
        result = result_of(load, port)
    assert (result["requests"], result["wrong"]) == (1, 1)


def test_a_datagram_that_was_dropped_is_sent_again_and_counted(load: Path) -> None:
    seen: set[bytes] = set()

    def drop_every_other_once(data: bytes) -> list[bytes]:
        if data in seen:
            return [data]
        seen.add(data)
        return [] if len(seen) % 2 else [data]

    with datagram_server(drop_every_other_once) as port:
        result = result_of(load, port, "--udp")
    assert (result["requests"], result["errors"]) == (6, 0)
    assert result["resent"] >= 3


def test_an_answer_that_comes_twice_is_counted_as_late_and_not_as_another_one(load: Path) -> None:
    with datagram_server(lambda data: [data, data]) as port:
        result = result_of(load, port, "--udp")
    assert (result["requests"], result["errors"], result["wrong"]) == (6, 0, 0)
    assert result["late"] >= 5
