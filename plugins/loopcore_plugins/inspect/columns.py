"""Columns: which values the tables of `top` show, in which order they sort, and which are hidden on a narrow screen."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from loopcore_plugins.inspect.figures import Frame, Row
from loopcore_plugins.inspect.listing import age_of, name_order, shorten, whereabouts
from loopcore_plugins.inspect.protocol import Message


def count_of(value: float) -> str:
    """Return a number or rate, short."""
    if value >= 10_000_000:
        return f"{value / 1e6:,.0f}M"
    if value >= 100_000:
        return f"{value / 1e3:,.0f}k"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def time_of(seconds: float) -> str:
    """Return a duration, short."""
    if seconds <= 0:
        return "-"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2f} s"


def size_of(size: float) -> str:
    """Return a number of bytes, short."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def share_of(value: float) -> str:
    """Return a share of 1 in percent."""
    return f"{value * 100:.0f} %" if value >= 0.1 else f"{value * 100:.2g} %"


class Column(NamedTuple):
    """A column. `title` is also its name for sorting."""

    title: str
    text: Callable[[Any], str]
    key: Callable[[Any], Any]
    is_number: bool = True
    """It is aligned to the right, and sorts from the greatest value."""
    from_width: int = 0
    """The width from which on the column is shown, in characters."""


def _coroutine(row: Row) -> str:
    return shorten(row.name) if row.kind == "task" else f"{shorten(row.name)} (callback)"


ROWS: Final = (
    Column("COROUTINE", _coroutine, lambda row: row.name.lower(), is_number=False),
    Column("TASKS", lambda row: count_of(row.tasks) if row.tasks else "-", lambda row: row.tasks, from_width=40),
    Column("STEPS/S", lambda row: count_of(row.rate) if row.rate else "-", lambda row: row.rate, from_width=30),
    Column("BUSY", lambda row: share_of(row.busy) if row.busy else "-", lambda row: row.busy),
    Column("MEAN", lambda row: time_of(row.mean), lambda row: row.mean, from_width=60),
    Column("LONGEST", lambda row: time_of(row.longest), lambda row: row.longest, from_width=70),
    Column("DEFINED AT", lambda row: short_path(row.place) or "-", lambda row: row.place, False, from_width=110),
)
"""Columns for a figures.Row."""

TASKS: Final[tuple[Column, ...]] = (
    Column("TASK", lambda task: shorten(task["name"]), name_order, is_number=False),
    Column("STATE", lambda task: task["state"], lambda task: task["state"], is_number=False, from_width=40),
    Column("AGE", lambda task: age_of(task["age"]), lambda task: task["age"] or 0.0, from_width=90),
    Column("COROUTINE", lambda task: shorten(task["coroutine"]), lambda task: task["coroutine"], is_number=False),
    Column("WAITS FOR", lambda task: shorten(task["waits_for"]) or "-", lambda task: task["waits_for"], False, 70),
    Column("AT", whereabouts, whereabouts, is_number=False, from_width=55),
)
"""Columns for a task, as `ps` describes it."""


def _oldest(site: Message) -> str:
    return "-" if site["oldest"] is None else ("≥ " if site["at_least"] else "") + age_of(site["oldest"])


SITES: Final[tuple[Column, ...]] = (
    Column("SITE", lambda site: site_of(site["place"]), lambda site: site_of(site["place"]), is_number=False),
    Column("TASKS", lambda site: count_of(site["count"]), lambda site: site["count"]),
    Column("OLDEST", _oldest, lambda site: site["oldest"] or 0.0),
    Column("STATE", lambda site: site["state"], lambda site: site["state"], False, 60),
    Column("WAITS FOR", lambda site: shorten(site["waits_for"]) or "-", lambda site: site["waits_for"], False, 40),
)
"""Columns for a site, as the question `sites` describes it."""

EVENTS: Final[tuple[Column, ...]] = (
    Column("WHEN", lambda event: time.strftime("%H:%M:%S", time.localtime(event.when)), lambda event: event.when),
    Column("FOR", lambda event: time_of(event.seconds), lambda event: event.seconds),
    Column("AT", lambda event: short_path(event.place) or "-", lambda event: event.place, is_number=False),
    Column("TASK", lambda event: shorten(event.task) or "-", lambda event: event.task, False, 50),
    Column("CAUSE", lambda event: event.cause, lambda event: event.cause, is_number=False),
)
"""Columns for a figures.Event."""


def site_of(place: Sequence[Any] | None) -> str:
    """Return where tasks wait: file, line and function."""
    if place is None:
        return "-"
    file, line, function = place
    return f"{shorten(os.path.basename(file))}:{line} {shorten(function)}"


class Tab(NamedTuple):
    """A table of `top`."""

    title: str
    columns: tuple[Column, ...]
    sorting: str
    """The title of the column that it is sorted by at first."""
    asks: str
    """The question that its rows are the answer to; empty if they are in every frame."""
    rows: Callable[[Frame, Message], Sequence[Any]]
    """Returns the rows of a frame and an answer."""
    identity: Callable[[Any], str]
    """Returns the key that identifies a row in the next frame."""


TABS: Final = (
    Tab("callbacks", ROWS, "BUSY", "", lambda frame, _: frame.rows, lambda row: f"{row.kind} {row.name}"),
    Tab(
        "sites",
        SITES,
        "TASKS",
        "sites",
        lambda _, answer: answer.get("sites", ()),
        lambda site: f"{site['place']} {site['state']} {site['waits_for']}",
    ),
    Tab("tasks", TASKS, "TASK", "ps", lambda _, answer: answer.get("tasks", ()), lambda task: str(task["id"])),
    Tab("stalls", EVENTS, "WHEN", "", lambda frame, _: frame.events, lambda event: f"{event.when} {event.task}"),
)


def short_path(place: str) -> str:
    """Return the last two parts of a path."""
    return shorten("/".join(place.split("/")[-2:]))


def visible(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that a screen of that width shows."""
    return [column for column in columns if column.from_width <= width]


def ordered(rows: Sequence[Any], column: Column, reverse: bool) -> list[Any]:
    """Return `rows` sorted by `column`: numbers from the greatest, words from A; with `reverse` the other way."""
    return sorted(rows, key=column.key, reverse=column.is_number != reverse)


def matching(rows: Sequence[Any], columns: Sequence[Column], text: str) -> Sequence[Any]:
    """Return the rows in which a column contains `text`, in any case."""
    wanted = text.lower()
    return [row for row in rows if any(wanted in column.text(row).lower() for column in columns)] if text else rows
