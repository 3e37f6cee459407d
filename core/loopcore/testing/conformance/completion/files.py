"""Pipes and files: Read, Write and SendFile."""

import os
import socket
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, TypeAlias

import pytest

from loopcore.errors import UsageError
from loopcore.ports.completion import CompletionBackend
from loopcore.ports.operations import Operation, Read, SendFile, Write
from loopcore.ports.readiness import Capability
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import Fill, Pair

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Pipe: TypeAlias = list[IO[bytes]]
"""The end to read from, and the end to write to."""


def write_of(file: IO[bytes], *buffers: "ReadableBuffer") -> Write:
    operation = Write(file.fileno())
    operation.buffers = buffers
    return operation


class Files(Level):
    """Pipes and files: Read, Write and SendFile."""

    @pytest.fixture
    def pipe(self) -> Iterator[Pipe]:
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)
        ends: Pipe = [os.fdopen(reader, "rb", 0), os.fdopen(writer, "wb", 0)]
        yield ends
        for file in ends:
            file.close()

    def test_operation_that_nobody_knows_is_refused(self, port: CompletionBackend) -> None:
        with pytest.raises(UsageError, match="operation 99"):
            port.submit(Operation(99, 0))

    def test_read_waits_for_the_pipe(self, ledger: Ledger, pipe: Pipe) -> None:
        reading = Read(pipe[0].fileno(), 100)
        ledger.submit(reading)
        assert ledger.has_nothing_new()
        pipe[1].write(b"hello")
        assert ledger.result_of(reading) == b"hello"
        assert reading not in ledger.in_flight

    def test_reads_of_a_pipe_are_served_in_order(self, ledger: Ledger, pipe: Pipe) -> None:
        first, second = Read(pipe[0].fileno(), 3), Read(pipe[0].fileno(), 3)
        ledger.submit(first)
        ledger.submit(second)
        ledger.wait(0.0)
        pipe[1].write(b"onetwo")
        ledger.settle()
        assert sorted([ledger.results[first], ledger.results[second]]) == [[b"one"], [b"two"]]

    def test_end_of_a_pipe_is_empty(self, ledger: Ledger, pipe: Pipe) -> None:
        reading = Read(pipe[0].fileno(), 100)
        ledger.submit(reading)
        pipe[1].close()
        assert ledger.result_of(reading) == b""

    def test_write_waits_for_room_in_the_pipe(self, ledger: Ledger, pipe: Pipe) -> None:
        filled = pipe[1].write(bytes(1 << 20))
        writing = write_of(pipe[1], b"later", bytearray(b" still"))
        ledger.submit(writing)
        assert ledger.has_nothing_new()
        while filled:
            filled -= len(pipe[0].read(filled))
        assert ledger.result_of(writing) == 11
        assert pipe[0].read(100) == b"later still"

    def test_write_to_a_pipe_without_a_reader_is_an_error_in_the_completion(self, ledger: Ledger, pipe: Pipe) -> None:
        pipe[0].close()
        assert isinstance(ledger.outcome_of(write_of(pipe[1], b"x")), BrokenPipeError)

    def test_write_that_waits_ends_when_the_reader_goes(self, ledger: Ledger, pipe: Pipe) -> None:
        pipe[1].write(bytes(1 << 20))
        writing = write_of(pipe[1], b"later")
        ledger.submit(writing)
        ledger.wait(0.0)
        pipe[0].close()
        assert isinstance(ledger.result_of(writing), BrokenPipeError)

    def test_regular_file_is_read_from_where_it_stands(self, ledger: Ledger) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            assert ledger.outcome_of(write_of(file, b"abc", b"def")) == 6
            file.seek(2)
            assert ledger.outcome_of(Read(file.fileno(), 3)) == b"cde"
            assert ledger.outcome_of(Read(file.fileno(), 300_000)) == b"f"
            assert ledger.outcome_of(Read(file.fileno(), 3)) == b""

    def test_device_that_cannot_be_watched_is_read(self, ledger: Ledger) -> None:
        with open(os.devnull, "rb", 0) as device:
            assert ledger.outcome_of(Read(device.fileno(), 3)) == b""

    def test_file_goes_to_a_socket(self, ledger: Ledger, port: CompletionBackend, pair: Pair) -> None:
        if Capability.SEND_FILE not in port.capabilities:
            pytest.skip("the port does not know SendFile")
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(b"0123456789")
            assert ledger.outcome_of(SendFile(pair[0].fileno(), file.fileno(), 3, 4)) == 4
            assert pair[1].recv(100) == b"3456"
            assert ledger.outcome_of(SendFile(pair[0].fileno(), file.fileno(), 10, 4)) == 0

    def test_file_waits_for_room_in_the_socket(
        self, ledger: Ledger, port: CompletionBackend, pair: Pair, fill: Fill
    ) -> None:
        if Capability.SEND_FILE not in port.capabilities:
            pytest.skip("the port does not know SendFile")
        filled = fill(pair[0])
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(b"0123456789")
            sending = SendFile(pair[0].fileno(), file.fileno(), 0, 10)
            ledger.submit(sending)
            assert ledger.has_nothing_new()
            while filled:
                filled -= len(pair[1].recv(filled))
            assert ledger.result_of(sending) == 10
            assert pair[1].recv(100, socket.MSG_WAITALL) == b"0123456789"
