"""Uneven connections: a tenth of them make nine tenths of the work. How evenly does the work spread over the loops?

    python tests/benchmarks/group/uneven.py [--loops 2] [--connections 200] [--rounds 5] [--kinds threads,processes]

Connections come one after another while earlier ones work, at most `--open` at a time. A light one sends a few
requests, a heavy one (every tenth, at random) 81 times as many: nine tenths of all. A request costs a fixed
number of steps of Python. Printed for each kind, with and without handing over: the share of the requests that the
busiest loop answered (1/loops is even), the least and the greatest share of the rounds, and how many connections were
handed over.
"""

import argparse
import asyncio
import functools
import random
import statistics

from loopcore import run
from loopcore.group import LoopGroup, Member, current_member

STEPS = 4_000
"""Steps of a request: about 0.1 ms."""

LIGHT = 10
HEAVY = LIGHT * 81
answered: dict[int, int] = {}
ports: dict[int, int] = {}


class Worker(asyncio.Protocol):
    """Computes for each byte that comes, and repeats it."""

    def __init__(self, index: int) -> None:
        self.index = index

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for _ in data:
            sum(range(STEPS))
        answered[self.index] += len(data)
        self.transport.write(data)


async def main(member: Member, hand_over: bool) -> None:
    """Serve on each loop."""
    answered[member.index] = 0
    server = await member.create_server(lambda: Worker(member.index), "127.0.0.1", 0, hand_over=hand_over)
    ports[member.index] = server.sockets[0].getsockname()[1]
    await member.draining()


def port() -> int:
    """Return the port of the group."""
    return ports[current_member().index]


def requests() -> int:
    """Return what this member has answered."""
    return answered[current_member().index]


async def one(number: int, count: int, limit: asyncio.Semaphore) -> None:
    async with limit:
        reader, writer = await asyncio.open_connection("127.0.0.1", number)
        for _ in range(count):
            writer.write(b"x")
            await reader.readexactly(1)
        writer.close()
        await writer.wait_closed()


async def load(number: int, connections: int, at_once: int, seed: int) -> None:
    """Run all connections."""
    chosen = set(random.Random(seed).sample(range(connections), connections // 10))
    limit = asyncio.Semaphore(at_once)
    await asyncio.gather(*(one(number, HEAVY if each in chosen else LIGHT, limit) for each in range(connections)))


def measure(kind: str, hand_over: bool, seed: int, arguments: argparse.Namespace) -> tuple[float, int]:
    """Return the busiest loop's share, and the connections that were handed over."""
    with LoopGroup(functools.partial(main, hand_over=hand_over), loops=arguments.loops, kind=kind) as group:
        run(load(group.run_on(0, port).result(), arguments.connections, arguments.open, seed))
        counts = [group.run_on(index, requests).result() for index in range(arguments.loops)]
        return max(counts) / sum(counts), group.stats().total.handed_over


def report() -> None:
    """Measure, and print a line for each kind with and without handing over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--open", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="threads,processes")
    arguments = parser.parse_args()
    print(f"even would be {1 / arguments.loops:.2f}")
    for kind in arguments.kinds.split(","):
        for hand_over in (False, True):
            found = [measure(kind, hand_over, seed, arguments) for seed in range(arguments.rounds)]
            shares = [share for share, _ in found]
            print(
                f"{kind:9} {'handed over' if hand_over else 'as accepted':11} busiest {statistics.median(shares):.2f} "
                f"({min(shares):.2f} to {max(shares):.2f}), handed over {statistics.median(n for _, n in found):.0f} "
                f"of {arguments.connections}",
                flush=True,
            )


if __name__ == "__main__":
    report()
