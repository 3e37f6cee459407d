"""Parsers of the command line: their errors are one line that ends with the command to type for help.

The command line is read in two steps: the options before the command, which every command has, and the command's own
arguments. Each command is a function that takes a parser, adds its arguments, and sets `act` to a function of the
parsed arguments that returns the exit code (`loopcore.cli.commands`).
"""

import argparse
import inspect
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from loopcore import __version__
from loopcore.errors import UsageError
from loopcore.selection.catalogue import AUTO
from loopcore.selection.discovery import BACKENDS, PLUGINS
from loopcore.text import did_you_mean

OTHER_PACKAGES: Final = "Commands of other packages"
"""The group in the help of a command that names none."""

GROUPS: Final = (
    "Run a program",
    "Look at a running program",
    "See what is installed",
    "Measure and extend",
    "Get help",
    OTHER_PACKAGES,
)
"""The groups of commands in the help, in order; a command may name another one, which comes last."""

DESCRIPTION: Final = "An asyncio event loop that can be taken apart. `loopcore run` runs a program on it, unchanged."

USAGE: Final = """\
loopcore [--backend B] [--plugin P]... [--debug] [--allow-other-loops]
                COMMAND [ARG]...
       loopcore -V | --version | -h | --help"""

EXAMPLES: Final = """\
examples:
  loopcore run server.py --port 8000       run a file, with its own arguments
  loopcore run -m uvicorn app:app          run a module
  loopcore run --plugin watchdog main.py   report callbacks that block the loop
  LOOPCORE_PLUGINS=inspect loopcore run main.py & loopcore ps
                                           list the tasks of a running program
  loopcore info                            the facts for a bug report
  loopcore help run                        the options of a command
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError for a wrong command line, and never guesses abbreviated options."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})
        self.suggest_on_error = False  # Python 3.15 suggests by itself, in other words

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: `message` in our words, and the command that shows the help."""
        missing = re.match(r"the following arguments are required: (.*)", message)
        message = f"needs {missing[1]}" if missing else message.removeprefix("argument ")
        message = message.replace(": expected one argument", " needs a value")
        message = re.sub(": ignored explicit argument .*", " takes no value", message)
        wrong = re.fullmatch(r".*: invalid choice: '(.*)' \(choose from (.*)\)", message)
        if wrong:
            choices = wrong[2].replace("'", "").split(", ")
            message = f"{wrong[1]!r} is not one of {', '.join(choices)}{did_you_mean(wrong[1], choices)}"
        command = self.prog.partition(" ")[2]  # empty before the command
        if command:
            message = f"{command} {message}" if missing else f"{command}: {message}"
        raise UsageError(f"{message}; see {self.prog} --help")

    def refuse(self, unknown: Sequence[str], words: Sequence[str]) -> NoReturn:
        """Raise UsageError for those of `words` that this parser does not know; an option gets a suggestion."""
        for word in unknown:
            if word.startswith("-"):
                option = word.partition("=")[0]
                hint = self._moved(word, words) or did_you_mean(option, self.options())
                self.error(f"there is no option {option!r}{hint}")
        self.error(f"takes no argument {unknown[0]!r}")

    def _moved(self, word: str, words: Sequence[str]) -> str:
        """Return a hint: the command line with `word` first; empty if that line would not run the command."""
        option, equals, _ = word.partition("=")
        action = make_parser()._option_string_actions.get(option)
        if action is None or word not in words or option in ("-V", "--version"):
            return ""
        at = words.index(word)
        end = at + 1 if equals or action.nargs == 0 else at + 2
        if end > len(words):
            return ""  # its value is missing
        command = self.prog.partition(" ")[2]
        line = shlex.join(["loopcore", *words[at:end], command, *words[:at], *words[end:]])
        return f"; it comes before the command: {line}"

    def options(self) -> list[str]:
        """Return the options that the usage shows."""
        usage = re.sub(r"\x1b\[[\d;]*m", "", self.format_usage())  # coloured on a terminal, from Python 3.14 on
        return ["--help", *re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", usage)]


def set_completer(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Make `names()` the words that complete the argument in a shell; argcomplete reads the attribute."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]


def add_global_options(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """Add the options that may stand before any command, and again among those of `run`."""
    default: str | None = argparse.SUPPRESS if again else None
    backend = parser.add_argument(
        "--backend", metavar="B", default=default, help="a name, a list in order of preference (epoll,poll), or auto"
    )
    plugin = parser.add_argument(
        "--plugin",
        metavar="P",
        action="append",
        default=argparse.SUPPRESS if again else [],
        help="NAME[:OPTION=VALUE,OPTION=VALUE]; may be repeated",
    )
    set_completer(backend, lambda: [*BACKENDS.names(), AUTO])
    set_completer(plugin, PLUGINS.names)
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS if again else False,
        help="asyncio's debug mode for every loop",
    )
    parser.add_argument(
        "--allow-other-loops",
        action="store_true",
        default=argparse.SUPPRESS if again else False,
        help="do not warn if the program runs on another loop",
    )


def make_parser() -> Parser:
    """Return the parser of the options before the command; `command` and `words` are the rest of the line."""
    parser = Parser(
        prog="loopcore",
        usage=USAGE,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    add_global_options(parser)
    parser.add_argument("-V", "--version", action="version", version=f"loopcore {__version__}", help="show the version")
    parser.add_argument("-h", "--help", action="store_true", help="show this help; with a command, its help")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def make_command(name: str, add: Callable[[argparse.ArgumentParser], object]) -> Parser:
    """Return the parser of the command `name`, which `add` fills; its docstring is the description."""
    text = inspect.getdoc(add) or ""
    parser = Parser(prog=f"loopcore {name}", description=text)
    add(parser)
    return parser


def summary_of(parser: argparse.ArgumentParser) -> str:
    """Return the first line of a parser's description, in the form of the list of commands."""
    line = (parser.description or "").partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:]


def help_text(parser: Parser, commands: Mapping[str, tuple[str, str]]) -> str:
    """Return the help of `loopcore`: `commands` has the group and the summary of each."""
    groups = {group: [name for name, (of, _) in commands.items() if of == group] for group in _groups_of(commands)}
    width = max(map(len, commands), default=0) + 4
    room = max(40, shutil.get_terminal_size().columns - 2)
    lines = [*textwrap.wrap(DESCRIPTION, room)]
    for group, names in groups.items():
        lines += ["", f"{group}:"]
        for name in names:
            text = textwrap.wrap(commands[name][1], room - width, break_on_hyphens=False) or [""]
            lines += [f"  {name:{width - 2}}{text[0]}", *(" " * width + line for line in text[1:])]
    parser.description = "\n".join(lines)
    return parser.format_help()


def _groups_of(commands: Mapping[str, tuple[str, str]]) -> Iterable[str]:
    found = {group for group, _ in commands.values()}
    return [*(group for group in GROUPS if group in found), *sorted(found - {*GROUPS})]
