"""Commands that other packages add to `loopcore`: entry points in the group `loopcore.commands`.

The name of the entry point is the command. It refers to a function that takes the command's `argparse.ArgumentParser`,
adds arguments to it and sets `act` to a function of the parsed arguments that returns the exit code:

    def greet(parser):
        "Greet a person."
        parser.add_argument("name")
        parser.set_defaults(act=lambda arguments: print("hello", arguments.name) or 0)

Its docstring is the help text. Only the requested command is imported; `loopcore --help` imports all of them.
The names of built-in commands are reserved: an entry point with such a name is ignored.
"""

import argparse
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, cast

from loopcore.errors import LoopcoreError, UsageError
from loopcore.selection.catalogue import Catalogue
from loopcore.text import printable

COMMANDS: Final = Catalogue("loopcore.commands", "command", UsageError)


def add_commands(subparsers: Any, builtin: Collection[str], words: Sequence[str]) -> None:
    """Add the command that `words`, the command line, begins with; if there is no such command, add all.

    A command that cannot be imported is an error if it is requested; otherwise the help says so.
    """
    asked = words[0] if words else ""
    if asked in builtin:
        return  # no lookup, so that `loopcore run` starts quickly
    names = COMMANDS.names()
    for name in [asked] if asked in names else [name for name in names if name not in builtin]:
        try:
            add = _find(name)
        except LoopcoreError as exc:
            if name == asked:
                raise
            subparsers.add_parser(name, help=printable(f"cannot be used: {exc}").replace("%", "%%"))
            continue
        text = (inspect.getdoc(add) or "").replace("%", "%%")
        summary = text.partition("\n")[0].rstrip(".")
        parser = subparsers.add_parser(
            name, help=summary[:1].lower() + summary[1:], description=text, allow_abbrev=False
        )
        add(parser)


def _find(name: str) -> Callable[[argparse.ArgumentParser], object]:
    declaration = COMMANDS.find(name)
    found = COMMANDS.load(declaration)
    if not callable(found):
        raise UsageError(f"command {name!r} ({declaration}) is {found!r}, which takes no parser")
    return cast(Callable[[argparse.ArgumentParser], object], found)
