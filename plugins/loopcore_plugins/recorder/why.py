"""The command `loopcore why`: why was something late? An entry point in the group `loopcore.commands`.

`reading` parses the file, `model` makes steps and wakes of it, `chains` follows them with the help of `causes`, and
`choosing` picks what to explain. `telling`, `page` and `export` are the forms of the answer.
"""

import argparse
import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Final

from loopcore.errors import UsageError
from loopcore_plugins.inspect.listing import Branches, branches_of_output, shorten
from loopcore_plugins.recorder.chains import Chains
from loopcore_plugins.recorder.choosing import Item, at_time, clock_of, lives, moment_of, name_of, slowest
from loopcore_plugins.recorder.export import export
from loopcore_plugins.recorder.model import Model, Step
from loopcore_plugins.recorder.page import make_page
from loopcore_plugins.recorder.reading import read
from loopcore_plugins.recorder.telling import as_json, item_lines, overview
from loopcore_plugins.trace.writer import replacement

GROUP: Final = "Look at a running program"
"""The heading of this command in `loopcore --help`."""
DEFAULT: Final = 5
NARROWEST: Final = 40


def why(parser: argparse.ArgumentParser) -> None:
    """Explain from a recording why something was late."""
    parser.add_argument(
        "dump", metavar="DUMP", type=Path, help="a dump, or the mapped file of a process that has ended"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--task", metavar="NAME", help="explain the lives of the tasks with this name or coroutine")
    what.add_argument("--at", metavar="TIME", help="explain what was late then: seconds before the end, or HH:MM:SS")
    parser.add_argument(
        "--slowest", type=count, default=DEFAULT, metavar="N", help=f"at most so many answers (default: {DEFAULT})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for another program to read")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the answers to an HTML page")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto and speedscope")
    parser.set_defaults(act=_act, group=GROUP)


def count(text: str) -> int:
    """Return the value of an option of the command line, at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _act(arguments: argparse.Namespace) -> int:
    path: Path = arguments.dump
    try:
        model = Model(read(path))
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from None
    chains = Chains(model)
    heading: list[str] = []
    if arguments.task is not None:
        items = lives(chains, arguments.task, arguments.slowest)
    elif arguments.at is not None:
        moment = moment_of(model, arguments.at)
        items = at_time(chains, moment, arguments.slowest)
        heading = [f"at {clock_of(model, moment)} {_doing(model, moment)}"]
    else:
        items = slowest(chains, arguments.slowest)
    for target, write in (
        (arguments.trace, lambda target: export(model, target)),
        (arguments.page, lambda target: _write_page(target, make_page(items, model))),
    ):
        if target is not None:
            umask = os.umask(0o077)  # as private as the dump
            try:
                write(target)
            except OSError as exc:
                raise UsageError(f"{target} cannot be written: {exc.strerror}") from None
            finally:
                os.umask(umask)
    if arguments.json:
        print(json.dumps(as_json(items, model), indent=2))
    else:
        _print(heading, items, model)
        for target in (arguments.page, arguments.trace):
            if target is not None:
                print(f"{target} is written")
    return 0


def _write_page(path: Path, page: str) -> None:
    with replacement(path) as unfinished, unfinished.open("x", encoding="utf-8") as file:
        file.write(page)


def _doing(model: Model, moment: int) -> str:
    span = next(model.between(moment, moment + 1), None)
    return f"{name_of(span)} ran" if isinstance(span, Step) else "the loop waited for events, or did its own work"


def _print(heading: list[str], items: list[Item], model: Model) -> None:
    branches = branches_of_output()
    lines = [*overview(model), *heading]
    for number, item in enumerate(items, 1):
        first, *rest = item_lines(item, model, branches)
        lines += ["", f"{number}. {first}", *rest]
    if not items:
        lines += ["", "nothing in this recording was late"]
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns, NARROWEST)
        lines = [each for line in lines for each in _fitted(line, room, branches)]
    print("\n".join(lines))


def _fitted(line: str, room: int, branches: Branches) -> list[str]:
    """Return a line of text in as many lines as it needs; a row of a tree has one."""
    if branches.branch in line or branches.last in line:
        return [shorten(line, room, branches.more)]
    indent = len(line) - len(line.lstrip()) + 2
    return textwrap.wrap(line, room, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
