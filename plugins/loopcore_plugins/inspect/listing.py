"""Listings: the output of `loopcore ps` and `loopcore stacks`, as lines of text."""

import functools
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from importlib.util import decode_source
from typing import Final, NamedTuple

from loopcore.text import printable
from loopcore_plugins._tasktree import Place
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.watchdog.stacks import innermost_of_program

LONGEST: Final = 60
"""The most characters of a name in a table or a line; `--json` has names in full."""
NARROWEST: Final = 8
"""The fewest characters that a column keeps in a narrow terminal."""
_DEEPEST: Final = 30
"""The most characters with which a tree is drawn to the left of a name."""
_LARGEST: Final = 4 << 20
"""Bytes of a source file whose lines are shown."""
HEADINGS: Final = ("TASK", "STATE", "AGE", "COROUTINE", "WAITS FOR", "AT")
_NUMBER: Final = re.compile(r"(\d+)")


class Branches(NamedTuple):
    """The characters that trees are drawn with."""

    branch: str
    last: str
    through: str
    more: str
    """Marks a text that was cut off."""
    blank: str = "   "


FINE: Final = Branches("├─ ", "└─ ", "│  ", "…")
PLAIN: Final = Branches("|- ", "`- ", "|  ", "~")


def branches_of_output() -> Branches:
    """Return the fine branches if standard output can encode them, else the plain ones."""
    try:
        FINE.branch.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return PLAIN
    return FINE


class Line(NamedTuple):
    """A task in the tree: the branches before its name, and whether the task and those below it are shown elsewhere."""

    prefix: str
    task: Message
    repeated: bool


def shorten(text: object, longest: int = LONGEST, more: str = FINE.more) -> str:
    """Return `text`, printable, in at most `longest` characters: a program may use any name, also a hostile one."""
    shown = printable(str(text)[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - len(more)] + more


def places_of(stack: Sequence[Sequence[str | int]]) -> tuple[Place, ...]:
    """Return a stack as places."""
    return tuple(Place(str(file), int(line), str(function)) for file, line, function in stack)


def whereabouts(task: Message) -> str:
    """Return file and line where a task is suspended: the innermost of the program, not of the standard library."""
    place = innermost_of_program(places_of(task["stack"]))
    return "-" if place is None else f"{shorten(os.path.basename(place.file))}:{place.line}"


def age_of(seconds: float | None) -> str:
    """Return an age in a readable form."""
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def name_order(task: Message) -> list[str]:
    """Return the key to sort tasks by name, numbers in it by their value: Task-2 before Task-10."""
    return [part.zfill(20) if part.isdecimal() else part.lower() for part in _NUMBER.split(task["name"])]


def tree(tasks: Sequence[Message], branches: Branches) -> Iterator[Line]:
    """Yield the tasks, each followed by those it awaits.

    A task that several tasks await is shown in full below the first. Of tasks that await one another in a circle the
    first is taken as the root; where the circle closes, it is repeated.
    """
    tasks = sorted(tasks, key=name_order)
    known = {task["id"]: task for task in tasks}
    awaits: dict[int, list[int]] = {number: [] for number in known}
    for task in tasks:
        for outer in task["awaited_by"]:
            if outer in awaits:
                awaits[outer].append(task["id"])
    shown: set[int] = set()
    roots = [task["id"] for task in tasks if not any(outer in known for outer in task["awaited_by"])]
    for root in (*roots, *known):  # tasks that no root leads to are in circles
        if root in shown:
            continue
        # Not recursive: a chain of awaits may be longer than Python's stack.
        pending = [(root, "", "")]
        while pending:
            number, prefix, below = pending.pop()
            yield Line(prefix, known[number], number in shown)
            if number in shown:
                continue
            shown.add(number)
            inner = awaits[number]
            for index, each in reversed(list(enumerate(inner))):
                is_last = index == len(inner) - 1
                mark, space = (branches.last, branches.blank) if is_last else (branches.branch, branches.through)
                if len(below) >= _DEEPEST:
                    below = branches.more + below[len(branches.more) + len(space) :]
                pending.append((each, below + mark, below + space))


def describe_loop(greeting: Message, answer: Message) -> str:
    """Return the line above a listing."""
    if not answer["running"]:
        state = "not running"
    elif answer["waiting"]:
        state = "waiting"
    else:
        state = "busy"
    left_out = f" ({answer['left_out']} more are left out)" if answer["left_out"] else ""
    count = len(answer["tasks"])
    return printable(
        f"{greeting['pid']}.{greeting['loop']}  {shorten(greeting['program'])}  {shorten(greeting['python'])}, "
        f"{shorten(greeting['backend'])}, {state}, {count} task{'s' * (count != 1)}{left_out}"
    )


def task_rows(tasks: Sequence[Message], branches: Branches) -> list[tuple[str, ...]]:
    """Return the cells of `loopcore ps` under HEADINGS."""
    return [
        (
            line.prefix + shorten(line.task["name"]) + (" (see above)" if line.repeated else ""),
            shorten(line.task["state"]),
            age_of(line.task["age"]),
            shorten(line.task["coroutine"]),
            shorten(line.task["waits_for"]) or "-",
            whereabouts(line.task),
        )
        for line in tree(tasks, branches)
    ]


def fit(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns that have `room` characters in all: the widest columns are narrowed first."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > NARROWEST:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def align(rows: Sequence[Sequence[str]], room: int | None, more: str) -> list[str]:
    """Return `rows` as lines, with columns two spaces apart, in `room` characters if that is possible."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if room is not None:
        widths = fit(widths, room - 2 * (len(widths) - 1))
    cells = [[shorten(cell, width, more) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def ps_lines(greeting: Message, answer: Message, branches: Branches, room: int | None = None) -> list[str]:
    """Return the output of `loopcore ps` for a loop, its table in `room` characters; None means no limit."""
    rows = task_rows(answer["tasks"], branches)
    # A column without any value (ages, mostly) is left out.
    kept = [number for number in range(len(HEADINGS)) if number == 0 or any(row[number] != "-" for row in rows)]
    shown = [[row[number] for number in kept] for row in (HEADINGS, *rows)]
    return [describe_loop(greeting, answer), *(align(shown, room, branches.more) if rows else [])]


def stack_lines(stack: Sequence[Sequence[str | int]]) -> Iterator[str]:
    """Yield the lines of a stack in the format of a traceback."""
    for place in places_of(stack):
        yield f'    File "{printable(place.file)}", line {place.line}, in {printable(place.function)}'
        lines = _source(place.file)
        source = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""
        if source:
            yield f"      {printable(source)}"


@functools.lru_cache(maxsize=4)  # 100 MiB each at worst
def _source(file: str) -> list[str]:
    """Return the lines of a file that another process has named; none if reading it may not end, or have effects."""
    try:
        if not os.path.isfile(file):  # opening a device may have effects
            return []
        with open(file, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST:  # 0 in procfs
                return []
            return decode_source(stream.read(_LARGEST)).split("\n")
    except (OSError, ValueError, LookupError, SyntaxError):
        return []


def _open_at_once(name: str, flags: int) -> int:
    """Open a file that may have become a pipe or a terminal."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def stacks_lines(greeting: Message, answer: Message) -> list[str]:
    """Return the output of `loopcore stacks` for a loop."""
    lines = [describe_loop(greeting, answer)]
    for thread in answer["threads"]:
        lines += ["", f"thread {shorten(thread['name'])}{' (runs the loop)' if thread['is_loop'] else ''}"]
        lines += stack_lines(thread["stack"])
    for task in sorted(answer["tasks"], key=name_order):
        waits = f", waits for {shorten(task['waits_for'])}" if task["waits_for"] else ""
        lines += ["", f"task {shorten(task['name'])} ({shorten(task['coroutine'])}), {shorten(task['state'])}{waits}"]
        lines += stack_lines(task["stack"])
    return lines
