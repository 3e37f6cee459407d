"""Detail: a task or a stall in full, as lines of text for the screen."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from loopcore.text import printable
from loopcore_plugins.inspect.columns import time_of
from loopcore_plugins.inspect.figures import Event
from loopcore_plugins.inspect.listing import age_of, stack_lines
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.watchdog.stall import EXPLANATIONS


def task_lines(task: Message) -> list[Text]:
    """Return the lines of an answer to the question `task`."""
    facts = [
        ("task", task["name"]),
        ("coroutine", task["coroutine"]),
        ("state", task["state"] + (f", waits for {task['waits_for']}" if task["waits_for"] else "")),
        ("age", age_of(task["age"])),
        ("awaited by", ", ".join(task["awaiters"]) or "-"),
    ]
    lines = [*_facts(facts), *_stack(task["stack"])]
    if task["history"] is not None:
        lines += [Text(), Text(" history", style="bold")]
        lines += [Text(f"    {line}") for line in _history(task["history"], task["monotonic_ns"])]
    return lines


def event_lines(event: Event) -> list[Text]:
    """Return the lines of a stall or a slow callback."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.when))
    explanation = EXPLANATIONS.get(event.cause, "")
    facts = [
        ("when", clock),
        ("for", time_of(event.seconds)),
        ("cause", f"{event.cause}: {explanation}" if explanation else event.cause),
        ("task", event.task or "-"),
        ("at", event.place or "-"),
    ]
    stall = event.stall
    if stall is None:
        return _facts(facts)
    if "cpu_seconds" in stall:
        facts.append(("CPU", time_of(stall["cpu_seconds"])))
    if stall.get("awaited_by"):
        facts.append(("awaited by", ", ".join(stall["awaited_by"])))
    if stall.get("request"):
        facts.append(("request", ", ".join(f"{name} {value}" for name, value in stall["request"].items())))
    holder = stall.get("holder")
    if holder is not None:
        place = "" if holder["place"] is None else " at {}:{}, in {}".format(*holder["place"])
        facts.append(("GIL held by", f"thread {holder['thread']}{place}; {time_of(holder['cpu_seconds'])} of CPU"))
    return [*_facts(facts), *_stack(stall.get("stack", ()))]


def _facts(facts: Sequence[tuple[str, str]]) -> list[Text]:
    lines = [Text()]
    for name, value in facts:
        line = Text(f" {name:<12}", style="dim")
        line.append(printable(value), style="bold not dim")
        lines.append(line)
    return lines


def _stack(stack: Sequence[Sequence[Any]]) -> Iterator[Text]:
    yield Text()
    yield Text(" stack" if stack else " no stack", style="bold")
    for line in stack_lines(stack):
        yield Text(line, style="" if line.lstrip().startswith("File") else "cyan")


def _history(events: Sequence[Message], now_ns: int) -> Iterator[str]:
    if not events:
        yield "the recorder has nothing of it (any more)"
    for event in events:
        yield printable(f"{(event['at_ns'] - now_ns) / 1e9:>+12.6f} s  {event['what']:<14} {event['code'] or ''}")
