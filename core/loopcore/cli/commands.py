"""Commands that other packages add to `loopcore`: entry points in the group `loopcore.commands`.

The name of the entry point is the command. It names a function that takes the command's own `argparse.ArgumentParser`,
adds what it accepts and sets `act` to a function of the parsed arguments that returns the exit code:

    def greet(parser):
        "Greet somebody."
        parser.add_argument("name")
        parser.set_defaults(act=lambda arguments: print("hello", arguments.name) or 0)

Its docstring says what the command is for. Only the command that is asked for is imported; all of them
are for `loopcore --help`. The built-in commands' names are taken: an entry point of such a name is never looked at.
"""

import argparse
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, cast

from loopcore.catalogue import Catalogue
from loopcore.errors import LoopcoreError, UsageError
from loopcore.text import printable

COMMANDS: Final = Catalogue("loopcore.commands", "command", UsageError)


def add_commands(subparsers: Any, builtin: Collection[str], words: Sequence[str]) -> None:
    """Add the commands that `words`, the command line, may mean: the one it begins with, else all.

    One that cannot be imported is an error if it is asked for, and says so in the help otherwise.
    """
    asked = words[0] if words else ""
    if asked in builtin:
        return  # nothing is looked for: `loopcore run` starts as fast as it can
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
