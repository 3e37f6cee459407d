"""A storm of cancellations: operations are submitted and cancelled at random moments, while peers come and go.

At the end each has ended once, every byte that was taken has arrived or is still in the kernel, and nothing is left:
no descriptor, no buffer, no slot. LOOPCORE_STORM sets the number of operations; the default keeps the suite short.
"""

import gc
import random
import socket
import weakref
from collections.abc import Iterable
from pathlib import Path

from loopcore.ports.completion import Completion, CompletionBackend
from loopcore.ports.interest import READ, WRITE
from loopcore.ports.operations import Accept, Connect, Operation, Poll, Receive, Send
from loopcore.selection.environment import read
from loopcore.testing.conformance.base import Level, unhurried
from loopcore.testing.conformance.ledger import Ledger
from loopcore.testing.conformance.surroundings import PATIENCE

OPERATIONS = int(read("LOOPCORE_STORM") or "3000")


MOST_IN_FLIGHT = 64


LANES = 6


class Buffer(bytearray):
    """Bytes that support weak references."""

    __slots__ = ("__weakref__",)


class Lane:
    """Two connected sockets, with the bytes reported as sent by the first and as received by the second."""

    def __init__(self) -> None:
        self.ends = socket.socketpair()
        for end in self.ends:
            end.setblocking(False)
        self.taken = 0
        self.came = 0
        self.in_flight: set[Operation] = set()
        self.is_sending = False

    def left_over(self) -> int:
        """Return how many bytes were never received; the lane cannot be used afterwards.

        Reads to the end of the stream: where a pair is TCP, bytes in flight are not there at once.
        """
        self.ends[0].shutdown(socket.SHUT_WR)
        self.ends[1].settimeout(PATIENCE)
        size = 0
        while part := self.ends[1].recv(1 << 20):
            size += len(part)
        return size

    def close(self) -> None:
        for end in self.ends:
            end.close()


class Storm:
    def __init__(self, ledger: Ledger, listener: socket.socket, chance: random.Random) -> None:
        self.ledger = ledger
        self.listener = listener
        self.chance = chance
        self.lanes = [Lane() for _ in range(LANES)]
        self.lane_of: dict[Operation, Lane] = {}
        self.buffers: list[weakref.ref[Buffer]] = []
        self.clients: dict[Operation, socket.socket] = {}
        self.submitted = 0
        self.ended = 0

    def submit(self) -> None:
        lane = self.chance.choice(self.lanes)
        kind = self.chance.choice(["receive", "lend", "send", "send", "poll", "accept", "connect"])
        operation = getattr(self, kind)(lane)
        if operation is None:
            return
        self.lane_of[operation] = lane
        lane.in_flight.add(operation)
        self.ledger.submit(operation)
        self.submitted += 1

    def receive(self, lane: "Lane") -> Receive:
        return Receive(lane.ends[1].fileno(), self.chance.choice([1, 100, 65536]))

    def lend(self, lane: "Lane") -> Receive:
        operation = self.receive(lane)
        operation.lend = True
        return operation

    def send(self, lane: "Lane") -> Send | None:
        if lane.is_sending:
            return None  # the order of two sends at once is undefined
        lane.is_sending = True
        operation = Send(lane.ends[0].fileno())
        operation.buffers = [Buffer(self.chance.choice([1, 1000, 300_000])) for _ in range(self.chance.randrange(1, 4))]
        operation.quiet = self.chance.random() < 0.5
        self.buffers += map(weakref.ref, operation.buffers)
        return operation

    def poll(self, lane: "Lane") -> Poll:
        return Poll(self.chance.choice(lane.ends).fileno(), self.chance.choice([READ, WRITE, READ | WRITE]))

    def accept(self, lane: "Lane") -> Accept:
        return Accept(self.listener.fileno())

    def connect(self, lane: "Lane") -> Connect:
        client = socket.socket()
        client.setblocking(False)
        operation = Connect(client.fileno(), self.listener.getsockname())
        self.clients[operation] = client
        return operation

    def cancel(self) -> None:
        if self.ledger.in_flight:
            self.ledger.cancel(self.chance.choice([*self.ledger.in_flight]))

    def wait(self) -> None:
        self.note(self.ledger.wait(self.chance.choice([0.0, 0.0, 0.001])))

    def note(self, completions: Iterable[Completion]) -> None:
        for operation, result, more in completions:
            lane = self.lane_of[operation]
            if isinstance(operation, Receive) and not isinstance(result, OSError):
                lane.came += len(result) if isinstance(result, bytes) else len(result.view)
                if not isinstance(result, bytes):
                    result.give_back()
            elif isinstance(operation, Send) and not isinstance(result, OSError):
                lane.taken += result
            elif isinstance(operation, Accept) and not isinstance(result, OSError):
                socket.close(result)
            if not more:
                self.end(operation, lane)

    def end(self, operation: Operation, lane: "Lane") -> None:
        self.ended += 1
        del self.lane_of[operation]
        lane.in_flight.remove(operation)
        assert operation.slot is None
        self.ledger.results.pop(operation)
        if isinstance(operation, Send):
            lane.is_sending = False
        elif isinstance(operation, Connect):
            self.clients.pop(operation).close()

    def replace_lane(self) -> None:
        """Cancel the operations in flight on a lane and close it at once, so that its numbers are reused."""
        index = self.chance.randrange(LANES)
        lane = self.lanes[index]
        self.ledger.cancel(*lane.in_flight)
        while lane.in_flight:
            self.note(self.ledger.wait(PATIENCE))
        assert lane.taken == lane.came + lane.left_over()
        lane.close()
        self.lanes[index] = Lane()

    def run(self) -> None:
        while self.submitted < OPERATIONS:
            what = self.chance.random()
            if what < 0.45 and len(self.ledger.in_flight) < MOST_IN_FLIGHT:
                self.submit()
            elif what < 0.75:
                self.cancel()
            elif what < 0.995:
                self.wait()
            else:
                self.replace_lane()
        self.ledger.cancel(*self.ledger.in_flight)
        while self.ledger.in_flight:
            self.note(self.ledger.wait(PATIENCE))
        for lane in self.lanes:
            assert lane.taken == lane.came + lane.left_over()
            lane.close()


class Storms(Level):
    """A storm of cancellations: operations are submitted and cancelled at random moments, while peers come and go."""

    @unhurried
    def test_storm_of_cancellations_loses_and_leaves_nothing(self, ledger: Ledger, port: CompletionBackend) -> None:
        descriptors = Path("/proc/self/fd")
        before = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
        with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
            listener.setblocking(False)
            storm = Storm(ledger, listener, random.Random(5))
            storm.run()
            assert storm.ended == storm.submitted >= OPERATIONS
            assert ledger.has_nothing_new()
            gc.collect()
            assert not any(buffer() is not None for buffer in storm.buffers), (
                "the port keeps buffers of operations that have ended"
            )
        assert not storm.clients
        if before:
            assert len(list(descriptors.iterdir())) == before
        assert [*port.close()] == []
