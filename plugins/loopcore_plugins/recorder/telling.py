"""Telling: the answer of `loopcore why` as lines of text, and as JSON."""

from collections.abc import Iterator
from typing import Any, Final

from loopcore.text import printable
from loopcore_plugins.inspect.listing import FINE, Branches, shorten
from loopcore_plugins.recorder.causes import Part, Why
from loopcore_plugins.recorder.choosing import SMALL, Item, clock_of, name_of
from loopcore_plugins.recorder.model import Model, Step, Wait

LONGEST: Final = 200
_ERRORS: Final = 3

_TEXTS: Final[dict[Why, tuple[str, str, str]]] = {
    # what it is, how its code is added, how its task or thread is added
    Why.RUNNING: ("running", " {}", " of {}"),
    Why.TURN: ("waiting for its turn", "", ""),
    Why.BEHIND: ("behind", " {}", " of {}"),
    Why.LOOP: ("the loop's own work", "", ""),
    Why.WAIT: ("the loop was waiting for events, or waking up", "", ""),
    Why.IO: ("waiting for I/O", " in {}", ""),
    Why.SLEEP: ("sleeping until a timer", " in {}", ""),
    Why.THREAD: ("waiting for another thread", " in {}", ""),
    Why.LOCK: ("waiting for a lock", " in {}", ", released by {}"),
    Why.QUEUE: ("waiting for a queue", " in {}", ", for {}"),
    Why.EVENT: ("waiting for an event or condition", " in {}", ", for {}"),
    Why.END: ("waiting for the end of another task", " in {}", ", {}"),
    Why.TASK: ("waiting for another task", " in {}", ", {}"),
    Why.POOL: ("waiting for a free thread of the executor", "", ""),
    Why.EXECUTOR: ("in the executor, running", " {}", " in the thread {}"),
    Why.CPU: ("on the CPU", ", at {}", ""),
    Why.GIL: ("waiting for the GIL", "", ", held by the thread {}"),
    Why.RUN_QUEUE: ("ready to run, but the kernel ran other threads or processes", "", ""),
    Why.COLLECTOR: ("garbage collection", "", ""),
    Why.BLOCKED: ("in a blocking call", " at {}", ""),
    Why.SUSPENDED: ("no thread of the process ran: suspended, short of CPU, or in C code that holds the GIL", "", ""),
    Why.OFF_CPU: ("not on the CPU, in a blocking call or waiting for the GIL", "", ""),
    Why.STILL: ("still waiting at the end", ", in {}", ""),
    Why.UNKNOWN: ("unknown", "", ""),
}


def text_of(part: Part, *, brief: bool = False) -> str:
    """Return what a part is, in words."""
    what, code, who = _TEXTS[part.why]
    label, name = part.label, part.who
    if label is not None and name.startswith(f"{label.name}#"):  # a task without a name, see `Model`
        label, name = label._replace(name=name), ""
    if label is not None:
        what += code.format(label)
    if name:
        what += who.format(printable(name))
    if brief and part.why in (Why.TURN, Why.RUNNING, Why.BEHIND):
        return what
    if part.note:
        what += f": {printable(part.note)}"
    return what if part.count == 1 else f"{what}, {part.count} times"


def summary_of(item: Item) -> str:
    """Return the cause of an item in a sentence's length."""
    return ", ".join(text_of(part, brief=True) for part in item.path)


def others_of(item: Item) -> str:
    """Return how many more there were."""
    return f"{item.others} more callbacks and steps were late for the same cause" if item.others else ""


def duration(ns: int) -> str:
    """Return a duration in three digits or more."""
    for unit, name in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= unit:
            value = ns / unit
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"
    return f"{ns} ns"


def overview(model: Model) -> list[str]:
    """Return what the recording is, how it ended, and where the loop's time went."""
    recording, facts = model.recording, model.recording.facts
    program = shorten(facts.get("program") or "a program")
    more = [f"process {recording.pid}"]
    more += [shorten(facts[key]) for key in ("backend",) if facts.get(key)]
    more += [f"Python {shorten(facts['python'])}"] if facts.get("python") else []
    took = duration(max(recording.end - recording.begin, 0))
    lines = [f"{program} ({', '.join(more)}): {took} up to {clock_of(model, recording.end)}"]
    if recording.is_dump and not facts:
        what = "cut off" if recording.is_cut_off else "damaged"
        lines.append(f"the file is {what}, so the reason for the dump is unknown")
    elif recording.is_dump:
        detail = f": {shorten(facts['detail'], LONGEST)}" if facts.get("detail") else ""
        lines.append(f"dumped at: {shorten(facts.get('reason') or 'unknown')}{detail}")
    else:
        lines.append(f"the file of a process that may have been killed; at the end {ending(model)}")
    lines.append(f"the loop: {', '.join(_shares(model))}")
    for at, label in model.errors[-_ERRORS:]:
        lines.append(f"error at {clock_of(model, at)}: {shorten(label, LONGEST)}")
    return lines + [f"note: {problem}" for problem in recording.problems]


def ending(model: Model) -> str:
    """Return what the loop did last."""
    last = model.spans[-1] if model.spans else None
    if last is None:
        return "nothing is known"
    if isinstance(last, Wait):
        return "the loop waited for events"
    return f"{name_of(last)} ran" + (", which had not returned" if last.is_open else "")


def _shares(model: Model) -> Iterator[str]:
    whole = max(model.recording.end - model.recording.begin, 1)
    waits = sum(span.end - span.begin for span in model.spans if isinstance(span, Wait))
    steps = [span.end - span.begin for span in model.spans if isinstance(span, Step)]
    yield f"{waits * 100 // whole} % waiting for events"
    yield f"{sum(steps) * 100 // whole} % in {len(steps)} callbacks and steps"
    clocks = (("on the CPU", model.cpu), ("kept waiting by the kernel", model.run_queue))
    for name, samples in clocks:
        if len(samples) > 1 and samples[-1].at > samples[0].at:
            spent = max(samples[-1].value - samples[0].value, 0)
            yield f"{spent * 100 // (samples[-1].at - samples[0].at)} % {name}"
    if gil := sum(span.gil for span in model.spans if isinstance(span, Wait)):
        yield f"{duration(gil)} waiting for the GIL"
    if collected := sum(end - begin for begin, end in model.collections):
        yield f"{duration(collected)} in the garbage collector"


def item_lines(item: Item, model: Model, branches: Branches = FINE) -> list[str]:
    """Return an item as a tree."""
    whole = max(item.end - item.begin, 1)
    times = f"from {clock_of(model, item.begin)} to {clock_of(model, item.end)}"
    lines = [f"{printable(item.name)}: {duration(item.late)} late", f"  why: {summary_of(item)}"]
    lines += [f"  {others_of(item)}"] if item.others else []
    lines += [f"  {text_of_request(each)}" for each in requests_of(item, model)]
    lines.append(_row(duration(item.end - item.begin), item.end - item.begin, whole, times))
    lines += _tree(item.parts, whole, branches, "")
    return lines


def by_size(parts: list[Part], whole: int) -> tuple[list[Part], list[Part]]:
    """Return the parts that are worth a line, and the small ones if they are several."""
    small = [part for part in parts if part.ns * SMALL < whole]
    if len(small) < 2:
        return parts, []
    return [part for part in parts if part.ns * SMALL >= whole], small


def _tree(parts: list[Part], whole: int, branches: Branches, below: str) -> Iterator[str]:
    large, small = by_size(parts, whole)
    if small and not large:
        return
    rows = [(amount_of(part), part.ns, text_of(part), part.parts) for part in large]
    if small:
        rest = sum(part.ns for part in small)
        rows.append((duration(rest), rest, f"{len(small)} smaller parts", []))
    for number, (amount, ns, text, inner) in enumerate(rows, 1):
        mark, space = (branches.branch, branches.through) if number < len(rows) else (branches.last, branches.blank)
        yield _row(amount, ns, whole, below + mark + text)
        yield from _tree(inner, whole, branches, below + space)


def _row(amount: str, ns: int, whole: int, text: str) -> str:
    return f"  {amount:>9} {ns * 100 // whole:>4} %  {text}"


def amount_of(part: Part) -> str:
    """Return the duration of a part; `~` marks an estimate."""
    return f"~{duration(part.ns)}" if part.about else duration(part.ns)


def requests_of(item: Item, model: Model) -> list[dict[str, Any]]:
    """Return the requests of the stalls in that time, as the watchdog reported them: trace_id, span_id."""
    stalls = (stall for stall in model.stalls if stall.end > item.begin and stall.begin < item.end)
    return [stall.request for stall in stalls if stall.request]


def text_of_request(request: dict[str, Any]) -> str:
    """Return a request in words."""
    return shorten(f"request: {', '.join(f'{key} {value}' for key, value in request.items())}", LONGEST)


def as_json(items: list[Item], model: Model) -> dict[str, Any]:
    """Return everything; times are monotonic nanoseconds, durations nanoseconds."""
    recording = model.recording
    return {
        "pid": recording.pid,
        "begin_ns": recording.begin,
        "end_ns": recording.end,
        "to_epoch_ns": recording.wall_ns,
        "facts": {key: value for key, value in recording.facts.items() if key not in ("tasks", "stalls")},
        "overview": overview(model),
        "problems": recording.problems,
        "items": [
            {
                "name": item.name,
                "why": summary_of(item),
                "late_ns": item.late,
                "others": item.others,
                "requests": requests_of(item, model),
                "begin_ns": item.begin,
                "end_ns": item.end,
                "parts": [_part_json(part) for part in item.parts],
            }
            for item in items
        ],
    }


def _part_json(part: Part) -> dict[str, Any]:
    return {
        "why": str(part.why),
        "text": text_of(part),
        "ns": part.ns,
        "about": part.about,
        "count": part.count,
        "code": None if part.label is None else part.label._asdict(),
        "who": part.who,
        "parts": [_part_json(each) for each in part.parts],
    }
