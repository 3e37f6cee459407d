"""The log message of a stall."""

from loopcore.text import printable
from loopcore_plugins._tasktree import Place, TaskView
from loopcore_plugins.watchdog.stacks import source_line
from loopcore_plugins.watchdog.stall import EXPLANATIONS, Stall

LONGEST_CHAIN = 5
"""The most awaiting tasks that are named; of the rest, only the number is given."""


def describe(stall: Stall) -> str:
    """Return the report of a stall: a line with cause and place, the tasks, the stack."""
    verb = "stalled for" if stall.over else "has been stalled for"
    lines = [f"loop {verb} {stall.seconds:.2f} s: {stall.cause} ({EXPLANATIONS[stall.cause]})"]
    if stall.place is not None:
        lines.append(f"  at {_with_source(stall.place)}; {stall.cpu_seconds:.2f} s of CPU")
    elif stall.samples:
        lines.append(f"  in no single place: many callbacks, or one in C; {stall.cpu_seconds:.2f} s of CPU")
    if stall.holder is not None:
        where = f" at {_with_source(stall.holder.place)}" if stall.holder.place is not None else ""
        lines.append(f"  GIL held by thread {stall.holder.name!r}{where}; {stall.holder.cpu_seconds:.2f} s of CPU")
    if stall.task is not None:
        lines.append(f"  task {_named(stall.task)}{_awaited(stall.awaited_by)}")
    if stall.request:
        lines.append("  request " + ", ".join(f"{name}={value}" for name, value in stall.request.items()))
    for place in stall.stack:
        lines.append(f'    File "{place.file}", line {place.line}, in {place.function}')
        text = source_line(place)
        if text:
            lines.append(f"      {text}")
    return "\n".join(map(printable, lines))  # names come from the program: none of them may start a line of the log


def summarize(stall: Stall) -> str:
    """Return one line about a stall that is over."""
    where = f", at {stall.place}" if stall.place is not None else ""
    return printable(
        f"loop continues after {stall.seconds:.2f} s: {stall.cause}{where}; {stall.cpu_seconds:.2f} s of CPU"
    )


def _with_source(place: Place) -> str:
    text = source_line(place)
    return f"{place}: {text}" if text else str(place)


def _named(task: TaskView) -> str:
    return f"{task.name!r} ({task.coroutine})"


def _awaited(tasks: tuple[TaskView, ...]) -> str:
    if not tasks:
        return ""
    more = f" and {len(tasks) - LONGEST_CHAIN} more" if len(tasks) > LONGEST_CHAIN else ""
    return ", awaited by " + ", ".join(map(_named, tasks[:LONGEST_CHAIN])) + more
