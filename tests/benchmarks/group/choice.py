"""The choice of a member, without a machine's noise: loops and connections as numbers, the choice as in production.

    python tests/benchmarks/group/choice.py [--rounds 20]

Time is counted in requests: a loop answers one a unit, first come, first served, and reports every thousand units. A
tenth of 200 connections make nine tenths of the requests; 20 are open at a time. The kernel's choice is at random.
Printed: the share of the requests that the busiest loop answered, mean and greatest of the rounds.
"""

import argparse
import heapq
import random
import statistics

from loopcore.group import load
from loopcore.group.load import Load, LoadTable, cells_of

CONNECTIONS, LIGHT, HEAVY, OPEN_EACH = 200, 20, 1620, 10
REQUEST = load.PERIOD / 1000


def simulate(loops: int, hand_over: bool, pause: float, seed: int) -> float:
    """Return the busiest loop's share. `pause` is how many units a client waits on average before its next request."""
    chance = random.Random(seed)
    heavy = set(chance.sample(range(CONNECTIONS), CONNECTIONS // 10))
    table, now, following = LoadTable([0.0] * cells_of(loops), loops), 0.0, iter(range(CONNECTIONS))
    loads = [Load(table, index, lambda: now * REQUEST) for index in range(loops)]
    free, worked, answered, reported = [0.0] * loops, [0.0] * loops, [0] * loops, 0.0
    waiting: list[tuple[float, int, int]] = []  # when, on which loop, how many requests are left

    def connect(at: float) -> None:
        each = next(following, None)
        if each is None:
            return
        index = chance.randrange(loops)
        target = loads[index].choose(0) if hand_over else None
        chosen = index if target is None else target
        loads[chosen].opened()
        heapq.heappush(waiting, (at + chance.random(), chosen, HEAVY if each in heavy else LIGHT))

    for each in loads:
        each.offer(0, True)
    for _ in range(OPEN_EACH * loops):
        connect(0.0)
    while waiting:
        now, index, left = heapq.heappop(waiting)
        while now - reported >= 1000:
            reported += 1000
            for each, busy in zip(loads, worked, strict=True):
                each.report(busy / 1000)
            worked = [0.0] * loops
        free[index] = max(now, free[index]) + 1
        worked[index] += 1
        answered[index] += 1
        if left > 1:
            delay = pause * chance.expovariate(1.0) if pause else 0.0
            heapq.heappush(waiting, (free[index] + delay, index, left - 1))
        else:
            loads[index].closed()
            connect(free[index])
    return max(answered) / sum(answered)


def report() -> None:
    """Print a line for each number of loops, pause and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    for loops in (2, 4, 8):
        for pause in (0.0, 10.0):
            for hand_over in (False, True):
                shares = [simulate(loops, hand_over, pause, seed) for seed in range(rounds)]
                way = "handed over" if hand_over else "as accepted"
                print(
                    f"{loops} loops, pause {pause:4.0f}, {way}: {statistics.mean(shares):.2f}, "
                    f"at most {max(shares):.2f} (even: {1 / loops:.2f})"
                )


if __name__ == "__main__":
    report()
