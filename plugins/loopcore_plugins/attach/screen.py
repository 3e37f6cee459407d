"""Screen: `loopcore top` of a process without the plugin inspect.

The agent measures delays and lists tasks; the CPU time of threads comes from /proc, which costs the process nothing.
"""

import os
import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.text import printable
from loopcore_plugins.attach.injection import Agent, NotReachedError, attached
from loopcore_plugins.attach.process import Process
from loopcore_plugins.attach.reports import chosen
from loopcore_plugins.inspect.client import GoneError
from loopcore_plugins.inspect.listing import PLAIN, align, shorten

LONGEST_INTERVAL: Final = 30.0
"""Seconds; an agent that hears nothing for a minute leaves."""
_SITES: Final = 20


def run_top(wish: str, *, interval: float, once: bool) -> int:
    """Show the loops of a process until the user quits or the process ends. Raises UsageError, GoneError."""
    pid = int(wish.partition(".")[0])
    Process(pid).check(f"top {pid}")
    if not once and not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UsageError("`loopcore top` needs a terminal; --once prints one frame")
    interval = min(interval, LONGEST_INTERVAL)
    try:
        with attached(pid, "top") as agent:
            screen = Screen(agent, wish)
            if once:
                time.sleep(interval)
                print("\n".join(screen.frame(None)))
            else:
                _live(screen, interval)
    except NotReachedError as exc:
        raise UsageError(f"{exc}; to see where it is: loopcore stacks {pid}") from None
    return 0


def _live(screen: "Screen", interval: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from loopcore_plugins.inspect.keyboard import keyboard, read_keys

    console = Console(highlight=False)
    try:
        with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                ready, _, _ = select.select([keys], [], [], interval)
                if ready:
                    pressed = read_keys(keys)
                    if not pressed or {"q", "Q", "escape"} & set(pressed):
                        break
                lines = screen.frame(console.width)[: console.height]
                live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
    except KeyboardInterrupt:
        pass
    except GoneError as exc:  # after the screen is the terminal again
        print(exc)


class Screen:
    """Frames of a process. Raises UsageError if `wish` names no running loop."""

    def __init__(self, agent: Agent, wish: str) -> None:
        self._agent = agent
        self._loops = chosen(agent, wish)
        if not self._loops:
            raise UsageError(f"process {wish} runs no asyncio loop now; to see what it does: loopcore stacks {wish}")
        self._longest: dict[int, float] = {}
        self._stall: dict[int, tuple[float, str]] = {}
        agent.ask("watch")
        self._before = self._scheduling()
        self._then = time.monotonic()

    def frame(self, width: int | None) -> list[str]:
        """Return the lines for the time since the last frame. Raises GoneError."""
        sample = self._agent.ask("sample")
        scheduling, now = self._scheduling(), time.monotonic()
        shares = {
            thread: [
                (new - old) / (now - self._then) / 1e9 for new, old in zip(times, self._before[thread], strict=True)
            ]
            for thread, times in scheduling.items()
            if thread in self._before
        }
        self._before, self._then = scheduling, now
        first = self._loops[0]
        lines = [f"{first['pid']}  {shorten(first['program'])}  {shorten(first['python'])}"]
        for described in self._loops:
            if described["loop"] <= len(sample["loops"]):
                lines += self._loop_lines(described, sample["loops"][described["loop"] - 1], shares)
        lines += ["", *align(self._site_rows(sample["loops"]), width, PLAIN.more)]
        lines += ["", *align(_thread_rows(sample, shares), width, PLAIN.more)]
        return [printable(line) for line in lines]  # figures may be texts, too

    def _loop_lines(
        self, described: dict[str, Any], figures: dict[str, Any], shares: dict[int, list[float]]
    ) -> Iterator[str]:
        number, delays = described["loop"], figures["delays"]
        ran, _ = shares.get(described["native_id"], (0.0, 0.0))
        state = "waiting" if self._agent.process.is_waiting(described["native_id"]) else "busy"
        known = [
            f"{figures[name]} {text}"
            for name, text in (("ready", "ready"), ("timers", "timers"))
            if figures[name] is not None
        ]
        yield ", ".join(
            [
                f"loop {number}: {shorten(described['backend'])}",
                state,
                f"{figures['tasks']} tasks",
                *known,
                f"{ran:.0%} CPU",
            ]
        )
        longest = self._longest[number] = max([*delays, self._longest.get(number, 0.0)])
        if delays:
            mean = sum(delays) / len(delays)
            yield f"  delay: {_ms(mean)} mean, {_ms(max(delays))} longest, {_ms(longest)} since this command began"
        for seconds, stack in figures["stalls"]:
            self._stall[number] = seconds, _blocking(stack)
        if figures["blocked"] is not None:
            yield f"  BLOCKED for {figures['blocked']:.1f} s: {_blocking(figures['blocked_stack'])}"
        elif number in self._stall:
            seconds, place = self._stall[number]
            yield f"  last blocked for {seconds:.1f} s: {place}"

    def _site_rows(self, loops: list[dict[str, Any]]) -> list[tuple[str, ...]]:
        numbers = {each["loop"] for each in self._loops}
        sites: Counter[tuple[Any, ...]] = Counter()
        for number, each in enumerate(loops, 1):
            if number in numbers:
                sites.update({tuple(site): count for *site, count in each["sites"]})
        rows = [
            (str(count), shorten(name), shorten(inner), _at(file, line))
            for (name, file, line, inner), count in sorted(sites.items(), key=lambda each: (-each[1], each[0]))
        ]
        return [("TASKS", "COROUTINE", "WAITS IN", "AT"), *rows[:_SITES]]

    def _scheduling(self) -> dict[int, tuple[int, int]]:
        process = self._agent.process
        return {thread: process.scheduling(thread) for thread in process.thread_ids()}


def _thread_rows(sample: dict[str, Any], shares: dict[int, list[float]]) -> list[tuple[str, ...]]:
    """Return a row for each thread that runs Python, and one for all others together."""
    rows = []
    others = {thread: share for thread, share in shares.items() if thread != sample["agent"]}
    for thread in sample["threads"]:
        share = others.pop(thread["native_id"], None)
        cells = ("-", "-") if share is None else (f"{share[0]:.1%}", f"{share[1]:.1%}")
        name = shorten(thread["name"]) + (" (loop)" if thread["is_loop"] else "")
        file, line, function = thread["stack"][-1] if thread["stack"] else ("", 0, "-")
        rows.append((name, *cells, f"{shorten(function)} {_at(file, line)}"))
    if others:
        ran, waited = (sum(times) for times in zip(*others.values(), strict=True))
        rows.append((f"{len(others)} without Python", f"{ran:.1%}", f"{waited:.1%}", "-"))
    return [("THREAD", "CPU", "WAITS FOR CPU", "AT"), *sorted(rows, key=lambda row: "(loop)" not in row[0])]


def _blocking(stack: Sequence[Sequence[Any]]) -> str:
    """Return the innermost calls of a blocked thread."""
    return " < ".join(f"{shorten(function)} {_at(file, line)}" for file, line, function in reversed(stack[-3:]))


def _at(file: str, line: int) -> str:
    return printable(f"{os.path.basename(file)}:{line}") if file else "-"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
