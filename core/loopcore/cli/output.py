"""Show tables and facts: with rich on a terminal if it is installed, as aligned text otherwise.

A pipe always gets plain text, so that `grep` and `cut` see the same with and without rich. Programs should ask for
JSON.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.text import print_on_stderr, printable

Row = Mapping[str, Any]


BROKEN_PIPE: Final = 141
"""Exit code of a command whose reader has gone: 128 + 13, as shells report for a process that SIGPIPE ended."""


@contextmanager
def report() -> Iterator[None]:
    """A context for printing a report: end the process quietly if its reader is gone, as in `loopcore info | head -1`.

    Characters that standard output cannot encode are printed as escapes. Raises UsageError if the report cannot be
    written, for example on a full disk.
    """
    out = sys.stdout if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict" else None
    try:
        try:
            if out is not None:
                out.reconfigure(errors="backslashreplace")
            yield
        finally:
            print(end="", flush=True)
            if out is not None:  # restored for the program that `loopcore run` runs
                out.reconfigure(errors="strict")
    except OSError as exc:
        # Windows' C library has no EPIPE; it reports EINVAL for a pipe without a reader.
        unread = isinstance(exc, BrokenPipeError) or (sys.platform == "win32" and exc.errno == errno.EINVAL)
        if not unread and not _cannot_print():
            raise  # not an error of standard output
        # Buffered text would be written, and fail, again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if unread:
            sys.exit(BROKEN_PIPE)
        raise UsageError(f"cannot write to standard output: {exc.strerror}") from None


def _cannot_print() -> bool:
    """Return whether standard output rejects even a newline: the failed write may have left its buffers empty."""
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def warn(text: object) -> None:
    """Print a warning on standard error."""
    print_on_stderr(f"loopcore: warning: {printable(text)}")


def show_json(value: object) -> None:
    """Print `value` as JSON."""
    print(json.dumps(value, indent=2))


def text_of(value: object) -> str:
    """Return the text of a cell or fact: printable, yes and no for booleans, a dash if it is empty."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return printable(", ".join(map(str, value))) or "-"
    return printable(value) if value not in (None, "") else "-"


def show_table(columns: Sequence[str], rows: Sequence[Row], empty: str) -> None:
    """Print `rows` under `columns`, which are keys of each row; print `empty` if there are no rows."""
    if not rows:
        print(empty)
        return
    cells = [[text_of(row[column]) for column in columns] for row in rows]
    if not _show_rich_table(columns, cells):
        for line in align([list(columns), *cells]):
            print(line)


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print one fact per line, names on the left."""
    cells = [[name, text_of(value)] for name, value in facts.items()]
    if not _show_rich_table((), cells):
        for line in align(cells):
            print(line)


def align(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return `lines` with their cells in columns two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _show_rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        return False
    table = Table(*columns, box=None, show_header=bool(columns), header_style="bold", pad_edge=False)
    if not columns:
        table.add_column(style="bold")
        table.add_column()
    colours = {"yes": "green", "compiled": "green", "no": "red", "stale": "yellow"}
    for line in cells:
        table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in line))
    console.print(table)
    return True
