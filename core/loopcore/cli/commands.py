"""Commands that other packages add to `loopcore`: entry points in the group `loopcore.commands`.

The name of the entry point is the command. It refers to a function that takes the command's `argparse.ArgumentParser`,
adds arguments to it and sets `act` to a function of the parsed arguments that returns the exit code:

    def greet(parser):
        "Greet a person."
        parser.add_argument("name")
        parser.set_defaults(act=lambda arguments: print("hello", arguments.name) or 0)

Its docstring is the help text; `parser.set_defaults(group="Say something")` puts the command under that heading in
`loopcore --help`. Only the requested command is imported; the help imports all of them.
The names of built-in commands are reserved: an entry point with such a name is ignored.
"""

import argparse
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from loopcore.cli.parsing import OTHER_PACKAGES, Parser, make_command, summary_of
from loopcore.errors import LoopcoreError, UsageError
from loopcore.selection.catalogue import Catalogue
from loopcore.text import printable

COMMANDS: Final = Catalogue("loopcore.commands", "command", UsageError)

AddCommand: TypeAlias = Callable[[argparse.ArgumentParser], object]


def find_command(name: str) -> Parser:
    """Return the parser of the installed command `name`. Raises UsageError if it is not declared or cannot be used."""
    declaration = COMMANDS.find(name)
    found: object = COMMANDS.load(declaration)
    if not callable(found):
        raise UsageError(f"command {name!r} ({declaration}) is {found!r}, which takes no parser")
    return make_command(name, cast(AddCommand, found))


def describe_command(name: str, make: Callable[[], Parser]) -> tuple[str, str]:
    """Return the group and the summary of a command; the summary says why if it cannot be used."""
    try:
        parser = make()
    except LoopcoreError as exc:
        return OTHER_PACKAGES, printable(f"cannot be used: {exc}")
    return str(parser.get_default("group") or OTHER_PACKAGES), summary_of(parser)
