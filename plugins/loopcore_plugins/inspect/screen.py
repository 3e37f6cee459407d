"""Screen: a snapshot of a loop as a rich renderable, for any screen size."""

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loopcore.text import printable
from loopcore_plugins.inspect.columns import (
    TABS,
    Column,
    Tab,
    count_of,
    matching,
    ordered,
    share_of,
    short_path,
    size_of,
    time_of,
    visible,
)
from loopcore_plugins.inspect.detail import event_lines, task_lines
from loopcore_plugins.inspect.figures import Event, Frame
from loopcore_plugins.inspect.listing import fit, shorten
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.inspect.sampler import Snapshot

_SPARKS: Final = "▁▂▃▄▅▆▇█"
_LABEL_WIDTH: Final = 14
_HELP_WIDTH: Final = 19
_ITEM_WIDTH: Final = 25
"""The width of a figure and its name, in characters."""
_LINES_AROUND: Final = 6
"""Title, state, tabs, headings, one row and footer: lines that every screen has."""
_STATE_STYLES: Final = {"waiting": "green", "busy": "yellow", "stalled": "bold red", "stopped": "dim"}
KEYS: Final = "q quit  ? help  tab table  s sort  / filter  ⏎ detail  space freeze"
HELP: Final = (
    ("tab, 1 2 3 4", "next table; callbacks, await sites, tasks, stalls"),
    ("↑ ↓ page up/down", "select a row"),
    ("enter", "a task's stack and history; a stall's stack; the tasks of a site or coroutine"),
    ("escape", "back: closes the help and the detail, drops the filter and the selection"),
    ("s, r", "sort by the next column; reverse"),
    ("/", "show only rows that contain a text; enter accepts it"),
    ("space", "freeze: the figures stand still while the history goes on; again to continue"),
    ("c, then y", "cancel the selected task"),
    ("q, ctrl-c", "quit"),
    ("", ""),
    ("utilization", "the share of time in which the loop worked instead of waiting"),
    ("delay p99", "from when a callback is ready until it runs; 99 % are faster"),
    ("CPU", "how much of the time the loop's thread ran on a processor (its CPU clock)"),
    ("run queue", "it was ready, and the kernel ran another thread (schedstat)"),
    ("off CPU", "it did neither although the loop worked: at least that long in blocking calls or waiting for the GIL"),
    ("GIL wait", "an estimate: what a thread that wakes waits until other threads release the GIL (mean)"),
    ("OLDEST", "the age of the oldest task there; ≥: it was created before watching began"),
)


@dataclass(slots=True)
class View:
    """What the user has chosen to see."""

    tab: Tab = TABS[0]
    sorting: dict[str, str] = field(default_factory=lambda: {tab.title: tab.sorting for tab in TABS})
    """The title of the column, by table."""
    reverse: bool = False
    frozen: bool = False
    selected: str = ""
    """The identity of the selected row; empty for none."""
    filter: str = ""
    typing: bool = False
    """Whether keys are added to the filter."""
    help: bool = False
    detail: Message | Event | None = None
    """The task or stall that fills the screen."""
    scrolled: int = 0
    """The first line of the detail that is shown."""
    notice: str = ""
    """A message to the user, shown in place of the keys."""

    @property
    def sort_column(self) -> Column:
        """The column that the table is sorted by."""
        return next(column for column in self.tab.columns if column.title == self.sorting[self.tab.title])

    def rows(self, snapshot: Snapshot) -> list[Any]:
        """Return the rows of the table, filtered and in the chosen order."""
        reply = snapshot.reply
        answer = reply.answer if reply is not None and reply.question.ask == self.tab.asks else {}
        rows = matching(self.tab.rows(snapshot.frame, answer), self.tab.columns, self.filter)
        return ordered(rows, self.sort_column, self.reverse)


def draw(greeting: Message, snapshot: Snapshot, view: View, size: tuple[int, int], fills: bool = True) -> Group:
    """Return the screen for `size`, its width and height; only as long as needed unless it `fills` that."""
    width, height = size
    frame = snapshot.frame
    lines: list[RenderableType] = [_title(greeting, view, width), _state(frame)]
    space = max(height - _LINES_AROUND + 1, 1)
    if view.help or view.detail is not None:
        body = _help(width) if view.help else _detail(view)
        view.scrolled = min(view.scrolled, max(len(body) - space - 2, 0))
        shown = body[view.scrolled : view.scrolled + space + 2]
        lines += [_cropped(line) for line in [*shown, *[Text()] * (space + 2 - len(shown))]]
        return Group(*lines, _footer(view, "", width))
    charts = _charts(snapshot, width)[: max((height - _LINES_AROUND) // 2, 0)]
    items = _items(frame)
    per_line = max(width // _ITEM_WIDTH, 1)
    item_lines = min(-(-len(items) // per_line), max((height - _LINES_AROUND - len(charts)) // 4, 0))
    rows = view.rows(snapshot)
    space = max(space - len(charts) - item_lines, 1)
    if not fills:
        space = min(space, max(len(rows), 1))
    lines += charts
    if item_lines:
        lines.append(_grid(items[: item_lines * per_line], per_line))
    lines += [_tabs(view, width), _table(rows, view, width, space)]
    if fills:
        lines.append(_footer(view, f"{len(rows)} {'row' if len(rows) == 1 else 'rows'} ", width))
    return Group(*lines)


def _cropped(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _title(greeting: Message, view: View, width: int) -> Text:
    left = f" loopcore top  {greeting['pid']}.{greeting['loop']}  {shorten(greeting['program'])}"
    backend = shorten(greeting["backend"])
    right = f"{backend}  {shorten(greeting['python'])}  {time.strftime('%H:%M:%S')} "
    if view.frozen:
        right = "FROZEN, space continues "
    if len(left) + len(right) + 2 > width:
        right = "FROZEN " if view.frozen else f"{backend} "
    left = left[: max(width - len(right) - 1, 0)]
    style = "bold black on yellow" if view.frozen else "bold white on blue"
    return Text((left.ljust(width - len(right)) + right)[:width], style=style, no_wrap=True, overflow="crop")


def _state(frame: Frame) -> Text:
    text = Text(" ● ", style=_STATE_STYLES[frame.state], no_wrap=True, overflow="ellipsis")
    stall = frame.stall
    if stall is None:
        text.append(f"{frame.state:<8}")
        last = next(iter(frame.events), None)
        if last is not None:
            ago = max(frame.now - last.when - last.seconds, 0.0)
            what = f" last {'slow callback' if last.cause == 'slow' else f'stall ({last.cause})'}: "
            text.append(f"{what}{shorten(last.task)} {time_of(last.seconds)}, {ago:.0f} s ago  ", style="default")
            text.append(short_path(last.place), style="default")
        return text
    text.append(f"STALLED for {stall['seconds']:.1f} s ({stall.get('cause', 'stall')})")
    if stall["place"]:
        file, line, function = stall["place"]
        text.append(f" at {short_path(f'{file}:{line}')}, in {shorten(function)}")
    if stall["task"]:
        text.append(f", task {shorten(stall['task'])}")
    return text


def _label(name: str) -> Text:
    return Text(f" {name:<{_LABEL_WIDTH - 1}}", style="dim", no_wrap=True, overflow="ellipsis")


def _charts(snapshot: Snapshot, width: int) -> list[Text]:
    """Return the lines with utilization, delay, connections and the thread's time, the most important first."""
    frame, history = snapshot.frame, snapshot.history
    share = frame.utilization
    style = "" if share is None else "green" if share < 0.6 else "yellow" if share < 0.85 else "red"
    utilization = _label("utilization")
    utilization.append("-" if share is None else share_of(share), style=f"bold not dim {style}")
    _spark(utilization, [each.utilization for each in history], 26, width, 1.0, style)

    delay = _label("delay p99")
    delay.append("-" if frame.delay is None else time_of(frame.delay), style="bold not dim")
    highest = max((each.delay or 0.0 for each in history), default=0.0)
    peak = f" highest {time_of(highest)}"
    _spark(delay, [each.delay for each in history], 26, width - len(peak), None, "cyan")
    delay.append(peak)
    return [utilization, delay, _connections(frame, history, width), _thread(frame)]


def _connections(frame: Frame, history: Sequence[Frame], width: int) -> Text:
    text = _label("connections")
    rates = frame.rates
    text.append(f"{count_of(frame.sockets)} open", style="bold not dim")
    text.append("  ")
    text.append(f"{count_of(rates['connections_accepted'])}/s accepted", style="bold not dim")
    room = (width - 96) // 2
    for name, words in (("bytes_received", "in"), ("bytes_sent", "out")):
        text.append(f"  {words} ")
        text.append(f"{size_of(rates[name])}/s", style="bold not dim")
        if room >= 8:
            text.append(" ")
            text.append(_sparks([each.rates[name] for each in history], room, None), style="magenta not dim")
    return text


def _thread(frame: Frame) -> Text:
    thread = frame.thread
    text = _label("thread")
    values = [("CPU", "", thread.cpu), ("run queue", "", thread.run_queue), ("off CPU", "≥ ", thread.off_cpu)]
    for name, mark, value in values:
        text.append(f"{name} ")
        text.append("-" if value is None else mark + share_of(value), style="bold not dim")
        text.append("  ")
    text.append("GIL wait ")
    known = "-" if thread.gil is None else "0" if not thread.gil else f"~{time_of(thread.gil)}"
    text.append(known, style="bold not dim" + (" red" if (thread.gil or 0.0) > 1e-3 else ""))
    return text


def _spark(text: Text, values: Sequence[float | None], at: int, width: int, top: float | None, style: str) -> None:
    """Add bars to a line, from the column `at` to `width`."""
    text.append(" " * max(at - cell_len(text.plain), 1))
    text.append(_sparks(values, max(width - at - 1, 0), top), style=f"not dim {style}")


def _sparks(values: Sequence[float | None], room: int, top: float | None) -> str:
    """Return the last values as a line of bars, in full width; the full height is `top`, or the greatest value."""
    last = [value or 0.0 for value in values[-room:]] if room else []
    scale = (max(last, default=0.0) or 1.0) if top is None else top
    return "".join(_SPARKS[min(int(value / scale * 8), 7)] for value in last).rjust(room)


def _items(frame: Frame) -> list[tuple[str, str, str]]:
    """Return name, figure and style of the values above the table, the most important first."""
    rates, counters = frame.rates, frame.counters
    known = frame.utilization is not None

    def percentile(histogram: Any, percent: float) -> str:
        return time_of(histogram.percentile(percent) / 1e9) if known and histogram.count else "-"

    failed = counters["tasks_failed"]
    stalls = frame.stalls["count"]
    return [
        ("tasks", count_of(frame.tasks), ""),
        ("tasks failed", count_of(failed), "red" if failed else ""),
        ("stalls", count_of(stalls), "red" if stalls else ""),
        ("callbacks/s", count_of(rates["callbacks"]), ""),
        ("ticks/s", count_of(rates["ticks"]), ""),
        ("timers late p99", percentile(frame.lateness, 99), ""),
        ("tick p99", percentile(frame.ticks, 99), ""),
        ("new tasks/s", count_of(rates["tasks_created"]), ""),
        ("longest stall", time_of(frame.stalls["longest"]), "red" if stalls else ""),
        ("tick p50", percentile(frame.ticks, 50), ""),
        ("task steps/s", count_of(rates["task_steps"]), ""),
        ("delay p50", percentile(frame.queue_time, 50), ""),
        ("polls/s", count_of(rates["polls"]), ""),
        ("ready", count_of(counters["ready"]), ""),
        ("timers", count_of(counters["timers"] - counters["timers_cancelled"]), ""),
        ("process CPU", share_of(frame.cpu), ""),
        ("threads", count_of(frame.threads), ""),
        ("longest GIL wait", time_of(frame.thread.gil_longest), ""),
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


def _tabs(view: View, width: int) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for number, tab in enumerate(TABS, 1):
        text.append("─", style="dim")
        text.append(f" {number} {tab.title} ", style="reverse bold" if tab is view.tab else "")
    if view.filter or view.typing:
        text.append("─", style="dim")
        text.append(f" filter: {printable(view.filter)}{'_' if view.typing else ''} ", style="yellow")
    text.append("─" * max(width - cell_len(text.plain), 0), style="dim")
    return text


def _table(rows: Sequence[Any], view: View, width: int, space: int) -> Table:
    columns = visible(view.tab.columns, width)
    places = [view.tab.identity(row) for row in rows]
    chosen = places.index(view.selected) if view.selected in places else 0
    first = max(min(chosen - space // 2, len(rows) - space), 0)
    shown = [[column.text(row) for column in columns] for row in rows[first : first + space]]
    titles = [_heading(column, view) for column in columns]
    # rich would narrow the first column for a long name in another one.
    widths = fit([max(map(cell_len, texts)) for texts in zip(titles, *shown, strict=True)], width - 2 * len(columns))
    table = Table(box=None, expand=True, padding=(0, 1), pad_edge=True, header_style="bold", show_edge=False)
    wide = next(number for number, column in enumerate(columns) if not column.is_number)
    for number, (column, title, fitted) in enumerate(zip(columns, titles, widths, strict=True)):
        table.add_column(
            Text(title, style="bold cyan" if column is view.sort_column else "bold"),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=None if number == wide else fitted,
            ratio=1 if number == wide else None,
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


def _help(width: int) -> list[Text]:
    lines = [Text()]
    for key, meaning in HELP:
        first, *more = textwrap.wrap(meaning, max(width - _HELP_WIDTH - 1, 20)) or [""]
        line = Text(f" {key:<{_HELP_WIDTH - 1}}", style="bold")
        lines.append(line.append(first, style="not bold"))
        lines += [Text(" " * _HELP_WIDTH + each) for each in more]
    return lines


def _detail(view: View) -> list[Text]:
    make: Callable[[Any], list[Text]] = event_lines if isinstance(view.detail, Event) else task_lines
    return make(view.detail)


def _footer(view: View, what: str, width: int) -> Text:
    keys = "type a text  enter accept  escape drop" if view.typing else KEYS
    if view.help or view.detail is not None:
        keys = "escape back  ↑↓ scroll  q quit"
    shown = printable(view.notice) or keys
    style = "bold black on yellow" if view.notice else "black on cyan"
    if len(shown) + len(what) + 2 > width:
        what = ""
    return Text(f" {shown}"[: width - len(what)].ljust(width - len(what)) + what, style=style, no_wrap=True)
