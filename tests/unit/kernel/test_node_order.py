"""Next-ticks, microtasks and immediates in Node's order: the same small programs, run by both."""

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="the oracle, node, is not on PATH")

# Programs are written once, as data: a callback's name, how it is set, and what it sets in turn.
Program = list[tuple[str, str, Any]]

PROGRAMS: dict[str, Program] = {
    "next-ticks before microtasks": [
        ("microtask", "m1", []),
        ("next_tick", "n1", []),
        ("microtask", "m2", []),
        ("next_tick", "n2", []),
    ],
    "nested": [
        ("next_tick", "n1", [("next_tick", "n1.n", []), ("microtask", "n1.m", [])]),
        ("microtask", "m1", [("next_tick", "m1.n", []), ("microtask", "m1.m", [])]),
        ("next_tick", "n2", []),
    ],
    "immediates between the urgent queues": [
        ("immediate", "i1", [("next_tick", "i1.n", []), ("microtask", "i1.m", []), ("immediate", "i1.i", [])]),
        ("immediate", "i2", [("microtask", "i2.m", []), ("next_tick", "i2.n", [])]),
        ("next_tick", "n1", [("immediate", "n1.i", [])]),
    ],
    "chains": [
        ("next_tick", "a", [("next_tick", "b", [("next_tick", "c", [("microtask", "d", [("next_tick", "e", [])])])])]),
        ("microtask", "f", [("microtask", "g", [("immediate", "h", [("microtask", "i", [])])])]),
    ],
    "an immediate precedes a timer set in the same callback": [
        ("immediate", "i1", [("timer", "t1", [("microtask", "t1.m", []), ("immediate", "t1.i", [])])]),
        ("immediate", "i2", [("next_tick", "i2.n", [("immediate", "i2.n.i", [])])]),
    ],
}

# A timer is long, so that it is not due before the immediates that are set with it have run, however slow the machine.
JAVASCRIPT = """
const log = [];
const ways = {
    next_tick: f => process.nextTick(f), microtask: f => queueMicrotask(f),
    immediate: f => setImmediate(f), timer: f => setTimeout(f, 200),
};
const play = program => { for (const [way, name, then] of program) ways[way](() => { log.push(name); play(then); }); };
require('fs').readFile('/dev/null', () => {
    play(JSON.parse(process.argv[1]));
});
process.on('exit', () => console.log(JSON.stringify(log)));
"""


def play_in_node(program: Program) -> list[str]:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", JAVASCRIPT, json.dumps(program)], capture_output=True, text=True, check=True, timeout=60
    )
    log: list[str] = json.loads(done.stdout)
    return log


@pytest.mark.loopcore_only
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_order_is_nodes(loop: Any, name: str) -> None:
    log: list[str] = []
    expected = play_in_node(PROGRAMS[name])
    ways: dict[str, Callable[..., Any]] = {
        "next_tick": loop.next_tick,
        "microtask": loop.queue_microtask,
        "immediate": loop.call_immediate,
        "timer": lambda callback: loop.call_later(0.2, callback),
    }

    def play(program: Program) -> None:
        for way, event, then in program:

            def step(event: str = event, then: Program = then) -> None:
                log.append(event)
                play(then)
                if len(log) == len(expected):
                    loop.stop()

            ways[way](step)

    loop.call_soon(play, PROGRAMS[name])
    loop.run_forever()
    assert log == expected
