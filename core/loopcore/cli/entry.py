"""The command line: its commands and its exit codes.

Exit codes: 0 success; 1 the program that was run ended with an exception (or the code that it passed to
`sys.exit`), or a check, simulation, measurement or cancellation failed; 2 the command itself failed, with one
line on standard error that says why; 3 an application that was to be served did not start; 130 Ctrl-C
interrupted a comparison or simulation, or a second one ended a server; 141 the reader of a report closed the
pipe.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from loopcore.cli.commands import COMMANDS, AddCommand, describe_command, find_command
from loopcore.cli.defaults import Settings, apply_settings, become_default
from loopcore.cli.execution import Program, show_program_error
from loopcore.cli.other_loops import UVICORN, choose_loop_of_uvicorn, watch_loops
from loopcore.cli.output import report, warn
from loopcore.cli.parsing import Parser, add_global_options, help_text, make_command, make_parser, set_completer
from loopcore.cli.program import find_module, find_target
from loopcore.errors import LoopcoreError, UsageError
from loopcore.selection.discovery import BACKENDS, PLUGINS
from loopcore.selection.environment import other_loops_are_allowed
from loopcore.text import did_you_mean, print_on_stderr, printable

RUN_USAGE = """\
loopcore run [--backend B] [--plugin P]... [--debug] [--allow-other-loops]
                    (FILE | -m MODULE | MODULE:FUNCTION) [ARG]..."""

RUN_HELP = """\
Run a program on loopcore.

The program is an existing asyncio program, unchanged. Arguments after it are passed to it.

  loopcore run server.py --port 8000        a file (or a directory or zip with a __main__.py)
  loopcore run -m package.server            a module, as `python -m` would
  loopcore run package.server:main alice    a coroutine function, called with strings
"""


def run(parser: argparse.ArgumentParser) -> None:
    """Run a program on loopcore."""
    parser.description = RUN_HELP
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = RUN_USAGE
    add_global_options(parser, again=True)
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="a module to run")
    parser.add_argument("target", nargs=argparse.REMAINDER, metavar="FILE", help="a file or MODULE:FUNCTION to run")
    parser.set_defaults(group="Run a program")


def help_(parser: argparse.ArgumentParser) -> None:
    """Show the help of loopcore, or of a command."""
    topic = parser.add_argument("topic", metavar="COMMAND", nargs="?", help="the command; without it, all are listed")
    set_completer(topic, _names)
    parser.set_defaults(act=_help, group="Get help")


BUILTIN: Final = ("run", "serve", "backends", "plugins", "info", "completion", "help")
"""The commands that no entry point can replace."""

COMPLETING: Final = "_ARGCOMPLETE"
"""The variable with which a shell asks for completions."""


def _builtin(name: str) -> AddCommand:
    if name == "run":
        return run
    if name == "help":
        return help_
    from loopcore.cli import builtin, completion, serve  # here, because importing importlib.metadata takes a while

    commands: dict[str, AddCommand] = {
        "serve": serve.serve,
        "backends": builtin.backends,
        "plugins": builtin.plugins,
        "info": builtin.info,
        "completion": completion.completion,
    }
    return commands[name]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: `sys.argv[1:]`) and return its exit code.

    Exceptions of the program pass through, so that it ends as it would under `python`.
    """
    sys.excepthook = show_program_error
    try:
        with report():
            if COMPLETING in os.environ:
                from loopcore.cli.completion import complete

                return complete(_names(), _parser_of)
            given = _read_line(list(sys.argv[1:] if argv is None else argv))
            if given.help or given.command is None:
                return _help(given)
            parser = _parser_of(given.command)
            if given.command != "run":
                return _act(parser, given)
            _parse(parser, given.words, given)
        program = prepare_program(given)
    except LoopcoreError as error:
        print_on_stderr(f"loopcore: error: {printable(error)}")
        return 2
    program()
    return 0


def _read_line(words: list[str]) -> argparse.Namespace:
    """Return the options before the command, the command, and its `words`; no words at all ask for the help."""
    parser = make_parser()
    given, unknown = parser.parse_known_args(words)
    if "-m" in unknown:
        parser.error(f"'-m' is an option of run: loopcore run {shlex.join(words)}")
    if unknown:
        parser.refuse(unknown, words)
    if given.command is None and words and not given.help:
        parser.error(f"needs a command, as in: loopcore {shlex.join(words)} run FILE")
    return given


def _parser_of(name: str) -> Parser:
    """Return the parser of a command. Raises UsageError if there is none, or if it cannot be used."""
    if name in BUILTIN:
        return make_command(name, _builtin(name))  # no lookup, so that `loopcore run` starts quickly
    if COMMANDS.declarations(name):
        return find_command(name)
    if os.path.exists(name):
        raise UsageError(f"there is no command {name!r}; to run it as a program: loopcore run {name}")
    raise UsageError(f"there is no command {name!r}{did_you_mean(name, _names())}; see loopcore --help")


def _names() -> list[str]:
    """Return the names of all commands: the built-in ones, then the installed ones."""
    return [*BUILTIN, *(name for name in COMMANDS.names() if name not in BUILTIN)]


def _parse(parser: Parser, words: Sequence[str], into: argparse.Namespace | None = None) -> argparse.Namespace:
    arguments, unknown = parser.parse_known_args(words, into)
    if unknown:
        parser.refuse(unknown, words)
    return arguments


def _act(parser: Parser, given: argparse.Namespace) -> int:
    """Carry out a command other than `run`, with the options before it."""
    arguments = _parse(parser, given.words)  # in another namespace: a command may have an argument `backend`
    apply_settings(_settings(given), everything=False)
    return int(arguments.act(arguments))


def _help(given: argparse.Namespace) -> int:
    """`loopcore help`, and `loopcore` alone."""
    topic = getattr(given, "topic", None) or getattr(given, "command", None)
    if topic is not None:
        _parser_of(topic).print_help()
    else:
        make: Callable[[str], Parser] = _parser_of
        commands = {name: describe_command(name, partial(make, name)) for name in _names()}
        print(help_text(make_parser(), commands), end="")
    return 0


def _settings(given: argparse.Namespace) -> Settings:
    return Settings(given.backend, tuple(given.plugin), given.debug, given.allow_other_loops)


def _options_of_loops(given: argparse.Namespace) -> list[str]:
    """Return the options that concern only loopcore's loops, as the user typed them."""
    backend = [] if given.backend is None else [f"--backend {given.backend}"]
    return [*backend, *(f"--plugin {text}" for text in given.plugin)]


def _meant_for_run(words: Sequence[str]) -> str:
    """Return the option of `run`, with its value, that was written after the program; an empty string if none was.

    Only one that names an installed backend or plugin, as programs may have such options too. `--debug` is left out:
    many have that.
    """
    for option, value in pairwise([*words, ""]):
        option, equals, rest = option.partition("=")
        value = rest if equals else value
        first = value.partition(",")[0]
        if option == "--allow-other-loops":
            return option
        if (option == "--backend" and BACKENDS.declarations(first)) or (
            option == "--plugin" and PLUGINS.declarations(first.partition(":")[0])
        ):
            return f"{option} {value}"
    return ""


def prepare_program(arguments: argparse.Namespace) -> Program:
    """Return the program that `loopcore run` was given, ready to run. Raises LoopcoreError if it cannot be run."""
    # Before Python 3.15, the REMAINDER of an option ends at `--`.
    words = arguments.target if arguments.module is None else arguments.module + arguments.target
    if not words and arguments.module is not None:
        raise UsageError("-m needs a MODULE, as in: loopcore run -m package.server")
    if not words:
        raise UsageError("nothing to run: name a FILE, -m MODULE or MODULE:FUNCTION, as in: loopcore run server.py")
    apply_settings(_settings(arguments))
    become_default()
    if not other_loops_are_allowed():
        watch_loops(_options_of_loops(arguments))
    find = find_target if arguments.module is None else find_module
    program = find(words[0], words[1:])
    misplaced = _meant_for_run(words[1:])
    if misplaced:
        module = "-m " * (arguments.module is not None)
        warn(
            f"{misplaced} is after the program, so the program gets it and not loopcore; if loopcore was meant: "
            f"loopcore run {misplaced} {module}{words[0]}"
        )
    if os.path.basename(words[0]) == UVICORN:
        choose_loop_of_uvicorn()
    return program
