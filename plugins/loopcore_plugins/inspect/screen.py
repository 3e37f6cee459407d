"""Screen: a frame of figures as a rich renderable, for any screen size."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loopcore.text import printable
from loopcore_plugins.inspect.columns import (
    ROWS,
    TASKS,
    Column,
    count_of,
    identity_of,
    ordered,
    share_of,
    short_path,
    size_of,
    time_of,
    visible,
)
from loopcore_plugins.inspect.figures import Frame
from loopcore_plugins.inspect.listing import fit, shorten
from loopcore_plugins.inspect.protocol import Message

_SPARKS: Final = "▁▂▃▄▅▆▇█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_HISTORY: Final = 300
_ITEM_WIDTH: Final = 25
"""The width of a figure and its name, in characters."""
_FIXED_LINES: Final = 6
"""Lines that are neither figures nor rows of the table."""
_STATE_STYLES: Final = {"waiting": "green", "busy": "yellow", "stalled": "bold red", "stopped": "dim"}
HELP: Final = "q quit  s sort  r reverse  p pause  t tasks  ↑↓ select  c cancel"


@dataclass(slots=True)
class View:
    """What the user has chosen to see."""

    shows_tasks: bool = False
    sorting: dict[bool, str] = field(default_factory=lambda: {False: "BUSY", True: "TASK"})
    """The title of the column, by `shows_tasks`."""
    reverse: bool = False
    paused: bool = False
    selected: str = ""
    """The identity of the selected row; empty for none."""
    notice: str = ""
    """A message to the user, shown in place of the help."""
    utilization: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    delay: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    """The 99th percentiles of the queue delay, in seconds."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that is shown."""
        return TASKS if self.shows_tasks else ROWS

    @property
    def sort_column(self) -> Column:
        """The column that the table is sorted by."""
        return next(column for column in self.columns if column.title == self.sorting[self.shows_tasks])

    def remember(self, frame: Frame) -> None:
        """Add a frame to the history."""
        self.utilization.append(frame.utilization or 0.0)
        self.delay.append(frame.queue_time.percentile(99) / 1e9)

    def rows(self, frame: Frame, tasks: Sequence[Message]) -> list[Any]:
        """Return the rows of the table in the chosen order."""
        return ordered(tasks if self.shows_tasks else frame.rows, self.sort_column, self.reverse)


def draw(
    greeting: Message, frame: Frame, tasks: Sequence[Message], view: View, size: tuple[int, int], fills: bool = True
) -> Group:
    """Return the screen for `size`, its width and height; only as long as needed unless it `fills` that."""
    width, height = size
    items = _items(frame)
    per_line = max(width // _ITEM_WIDTH, 1)
    lines = min(-(-len(items) // per_line), max((height - _FIXED_LINES) * 3 // 5, 1))
    rows = view.rows(frame, tasks)
    space = max(height - _FIXED_LINES - lines, 1)
    if not fills:
        space = min(space, len(rows))
    return Group(
        _title(greeting, view, width),
        _state(frame),
        _bar(frame, view, width),
        _grid(items[: lines * per_line], per_line),
        Text("─" * width, style="dim"),
        _table(rows, view, width, space),
        *([_footer(view, len(rows), width)] if fills else []),
    )


def _title(greeting: Message, view: View, width: int) -> Text:
    left = f" loopcore top  {greeting['pid']}.{greeting['loop']}  {shorten(greeting['program'])}"
    backend = shorten(greeting["backend"])
    right = f"{backend}  {shorten(greeting['python'])}  {time.strftime('%H:%M:%S')} "
    if len(left) + len(right) + 2 > width:
        right = f"{backend} "
    left = left[: max(width - len(right) - 1, 0)]
    text = Text(left.ljust(width - len(right)) + right, style="bold white on blue", no_wrap=True, overflow="crop")
    return text if not view.paused else Text(f"{' PAUSED':<{width}}"[:width], style="bold black on yellow")


def _state(frame: Frame) -> Text:
    text = Text(" ● ", style=_STATE_STYLES[frame.state], no_wrap=True, overflow="ellipsis")
    if frame.stall is None:
        text.append(f"{frame.state:<8}")
        if frame.slow:
            last = frame.slow[-1]
            where = short_path(":".join(map(str, last["place"]))) if last["place"] else ""
            ago = max(frame.now - last["when"], 0.0)
            text.append(f" last slow callback: {shorten(last['name'])} {time_of(last['seconds'])}, ", style="default")
            text.append(f"{ago:.0f} s ago  {where}", style="default")
        return text
    text.append(f"STALLED for {frame.stall['seconds']:.1f} s")
    if frame.stall["place"]:
        file, line, function = frame.stall["place"]
        text.append(f" at {short_path(f'{file}:{line}')}, in {shorten(function)}")
    if frame.stall["task"]:
        text.append(f", task {shorten(frame.stall['task'])}")
    return text


def _bar(frame: Frame, view: View, width: int) -> Text:
    share = frame.utilization
    text = Text(" utilization ", no_wrap=True, overflow="crop")
    if share is None:
        return text.append("not measured yet", style="dim")
    style = "green" if share < 0.6 else "yellow" if share < 0.85 else "red"
    long = max(min((width - 24) // 3, 40), 8)
    eighths = round(share * long * 8)
    full, part = divmod(eighths, 8)
    text.append(f"{share_of(share):>6} ", style=f"bold {style}")
    text.append(("█" * full + (_EIGHTHS[part] if part else "")).ljust(long), style=f"{style} on grey23")
    text.append(" ")
    room = max(width - len(text) - 1, 0)
    half = room // 2 - 8
    if half >= 8:
        text.append(_sparks(view.utilization, half, 1.0), style=style)
        text.append(" delay p99 ", style="default")
        text.append(_sparks(view.delay, max(half, 0), None), style="cyan")
    else:
        text.append(_sparks(view.utilization, room, 1.0), style=style)
    return text


def _sparks(values: Sequence[float], room: int, top: float | None) -> str:
    """Return the last values as a line of bars; the full height is `top`, or the greatest value."""
    last = list(values)[-room:] if room else []
    scale = (max(last, default=0.0) or 1.0) if top is None else top
    return "".join(_SPARKS[min(int(value / scale * 8), 7)] for value in last)


def _items(frame: Frame) -> list[tuple[str, str, str]]:
    """Return name, figure and style of the values above the table, the most important first."""
    rates, counters = frame.rates, frame.counters
    known = frame.utilization is not None

    def percentile(histogram: Any, percent: float) -> str:
        return time_of(histogram.percentile(percent) / 1e9) if known and histogram.count else "-"

    failed = counters["tasks_failed"]
    stalls = frame.stalls["count"]
    return [
        ("callbacks/s", count_of(rates["callbacks"]), ""),
        ("tick p50", percentile(frame.ticks, 50), ""),
        ("queue delay p50", percentile(frame.queue_time, 50), ""),
        ("ticks/s", count_of(rates["ticks"]), ""),
        ("tick p99", percentile(frame.ticks, 99), ""),
        ("queue delay p99", percentile(frame.queue_time, 99), ""),
        ("polls/s", count_of(rates["polls"]), ""),
        ("tasks", count_of(frame.tasks), ""),
        ("timers late p99", percentile(frame.lateness, 99), ""),
        ("task steps/s", count_of(rates["task_steps"]), ""),
        ("new tasks/s", count_of(rates["tasks_created"]), ""),
        ("tasks failed", count_of(failed), "red" if failed else ""),
        ("sockets", count_of(frame.sockets), ""),
        ("received", f"{size_of(rates['bytes_received'])}/s", ""),
        ("sent", f"{size_of(rates['bytes_sent'])}/s", ""),
        ("accepted/s", count_of(rates["connections_accepted"]), ""),
        ("ready", count_of(counters["ready"]), ""),
        ("timers", count_of(counters["timers"] - counters["timers_cancelled"]), ""),
        ("CPU", share_of(frame.cpu), ""),
        ("stalls", count_of(stalls), "red" if stalls else ""),
        ("longest stall", time_of(frame.stalls["longest"]), "red" if stalls else ""),
    ]


def _grid(items: Sequence[tuple[str, str, str]], per_line: int) -> Table:
    grid = Table.grid(expand=True, padding=(0, 1))
    for _ in range(per_line):
        grid.add_column(ratio=1, no_wrap=True, style="dim")
        grid.add_column(justify="right", no_wrap=True)
    for start in range(0, len(items), per_line):
        cells: list[RenderableType] = []
        for name, figure, style in items[start : start + per_line]:
            cells += [f" {name}", Text(figure, style=style or "bold not dim")]
        grid.add_row(*cells)
    return grid


def _table(rows: Sequence[Any], view: View, width: int, space: int) -> Table:
    columns = visible(view.columns, width)
    places = [identity_of(row) for row in rows]
    chosen = places.index(view.selected) if view.selected in places else 0
    first = max(min(chosen - space // 2, len(rows) - space), 0)
    shown = [[column.text(row) for column in columns] for row in rows[first : first + space]]
    titles = [_heading(column, view) for column in columns]
    # rich would narrow the first column for a long name in another one.
    widths = fit([max(map(cell_len, texts)) for texts in zip(titles, *shown, strict=True)], width - 2 * len(columns))
    table = Table(box=None, expand=True, padding=(0, 1), pad_edge=True, header_style="bold", show_edge=False)
    for number, (column, title, fitted) in enumerate(zip(columns, titles, widths, strict=True)):
        table.add_column(
            Text(title, style="bold cyan" if column is view.sort_column else "bold"),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=fitted if number else None,
            ratio=None if number else 1,
        )
    for texts, place in zip(shown, places[first : first + space], strict=True):
        table.add_row(*map(Text, texts), style="reverse" if place == view.selected else "")
    for _ in range(space - len(shown)):
        table.add_row("")
    return table


def _heading(column: Column, view: View) -> str:
    if column is not view.sort_column:
        return column.title
    return column.title + ("▲" if column.is_number == view.reverse else "▼")


def _footer(view: View, count: int, width: int) -> Text:
    shown = printable(view.notice) or HELP
    style = "bold black on yellow" if view.notice else "black on cyan"
    what = f"{count} {'tasks' if view.shows_tasks else 'rows'} "
    if len(shown) + len(what) + 2 > width:
        what = ""
    return Text(f" {shown}"[: width - len(what)].ljust(width - len(what)) + what, style=style, no_wrap=True)
