"""The programs by which Node's guide explains its order, once for Node and once for loopcore.

Both write a line whenever something runs. What Node leaves open (a timer and an immediate set by the main program) is
not among them.
"""

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

NODE = shutil.which("node")

Say = Callable[[str], Any]


class Guided(NamedTuple):
    """A program in both languages."""

    title: str
    javascript: str
    python: Callable[[Any, Say], None]


def in_io_callback(loop: Any, then: Callable[[], object]) -> None:
    """Call `then` in the io phase."""
    ours, theirs = socket.socketpair()

    def ready() -> None:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()
        then()

    loop.add_reader(ours, ready)
    theirs.send(b".")


def timer_and_immediate(loop: Any, say: Say) -> None:
    def read() -> None:
        loop.call_later(0, say, "timer")
        loop.call_immediate(say, "immediate")
        say("read")

    in_io_callback(loop, read)


def all_queues(loop: Any, say: Say) -> None:
    def resolved() -> None:
        say("microtask")
        loop.next_tick(say, "next-tick of the microtask")

    loop.call_immediate(say, "immediate")
    loop.queue_microtask(resolved)
    loop.next_tick(say, "next-tick")
    say("main")


def result_is_there(loop: Any, say: Say) -> None:
    ready: list[str] = []

    def request(callback: Callable[[], object]) -> None:
        loop.next_tick(callback)

    request(lambda: say(f"callback sees {ready}"))
    ready.append("main is through")
    say("main")


def listener_in_time(loop: Any, say: Say) -> None:
    class Server:
        def __init__(self) -> None:
            self.on_listening: Callable[[], object] = lambda: say("nobody listens")
            loop.next_tick(lambda: self.on_listening())

    server = Server()
    server.on_listening = lambda: say("listening")
    say("listener is attached")


def recursion(loop: Any, say: Say) -> None:
    def again(left: int) -> None:
        say(f"next-tick, {left} left")
        if left:
            loop.next_tick(again, left - 1)

    def read() -> None:
        loop.call_immediate(say, "immediate")
        again(3)

    in_io_callback(loop, read)


def between_immediates(loop: Any, say: Say) -> None:
    def immediate(name: str) -> None:
        say(name)
        loop.next_tick(say, f"{name}: next-tick")
        loop.queue_microtask(say, f"{name}: microtask")
        loop.call_immediate(say, f"{name}: immediate")

    def read() -> None:
        loop.call_immediate(immediate, "a")
        loop.call_immediate(immediate, "b")

    in_io_callback(loop, read)


def between_timers(loop: Any, say: Say) -> None:
    def timer(name: str) -> None:
        say(name)
        loop.queue_microtask(say, f"{name}: microtask")
        loop.next_tick(say, f"{name}: next-tick")

    loop.call_later(0, timer, "first timer")
    loop.call_later(0, timer, "second timer")


IO = "require('fs').stat('/', () => {{ {} }});"

PROGRAMS = [
    Guided(
        "A timer and an immediate, set in an I/O callback",
        IO.format("setTimeout(say, 0, 'timer'); setImmediate(say, 'immediate'); say('read');"),
        timer_and_immediate,
    ),
    Guided(
        "Each queue once, from the main program",
        "setImmediate(say, 'immediate');"
        "Promise.resolve().then(() => { say('microtask'); process.nextTick(say, 'next-tick of the microtask'); });"
        "process.nextTick(say, 'next-tick'); say('main');",
        all_queues,
    ),
    Guided(
        "A callback by next-tick runs after its caller",
        "const ready = []; const request = callback => process.nextTick(callback);"
        "request(() => say(`callback sees ['${ready}']`)); ready.push('main is through'); say('main');",
        result_is_there,
    ),
    Guided(
        "A constructor announces by next-tick, its user attaches in time",
        "class Server { constructor() { this.onListening = () => say('nobody listens');"
        " process.nextTick(() => this.onListening()); } }"
        "const server = new Server(); server.onListening = () => say('listening'); say('listener is attached');",
        listener_in_time,
    ),
    Guided(
        "Next-ticks that set next-ticks go before everything else",
        "const again = left => { say(`next-tick, ${left} left`); if (left) process.nextTick(again, left - 1); };"
        + IO.format("setImmediate(say, 'immediate'); again(3);"),
        recursion,
    ),
    Guided(
        "Immediates that set immediates",
        "const immediate = name => { say(name); process.nextTick(say, `${name}: next-tick`);"
        " queueMicrotask(() => say(`${name}: microtask`)); setImmediate(say, `${name}: immediate`); };"
        + IO.format("setImmediate(immediate, 'a'); setImmediate(immediate, 'b');"),
        between_immediates,
    ),
    Guided(
        "Two timers that are due together",
        "const timer = name => { say(name); queueMicrotask(() => say(`${name}: microtask`));"
        " process.nextTick(say, `${name}: next-tick`); };"
        "setTimeout(timer, 1, 'first timer'); setTimeout(timer, 1, 'second timer');",
        between_timers,
    ),
]

HARNESS = "const log = []; const say = line => log.push(line);"
REPORT = "process.on('exit', () => console.log(JSON.stringify(log)));"


def run_in_node(program: Guided) -> list[str]:
    """Return what Node writes."""
    assert NODE is not None
    script = HARNESS + REPORT + program.javascript
    done = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True, timeout=60)
    log: list[str] = json.loads(done.stdout)
    return log


def run_on(loop: Any, program: Guided) -> list[str]:
    """Return what loopcore writes."""
    log: list[str] = []

    async def main() -> None:
        loop.call_soon(program.python, loop, log.append)
        written = -1
        quiet = 0
        while quiet < 8:  # ticks in which nothing came; all that a program sets is due at once
            quiet = quiet + 1 if len(log) == written and log else 0
            written = len(log)
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    return log
