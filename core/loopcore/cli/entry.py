"""The command line: its arguments and its exit codes.

Exit codes: 0 success; 1 the program that was run ended with an exception (or the code that it passed to
`sys.exit`); 2 the command itself failed, with one line on standard error that says why; 130 Ctrl-C
interrupted a comparison; 141 the reader of a report closed the pipe.
"""

import argparse
import sys
from collections.abc import Sequence

from loopcore import __version__
from loopcore.cli.commands import add_commands
from loopcore.cli.defaults import Settings, apply_settings
from loopcore.cli.execution import Program, show_program_error
from loopcore.cli.output import report, show_facts, show_json, show_table
from loopcore.cli.program import find_module, find_target
from loopcore.cli.reports import (
    BACKEND_COLUMNS,
    DETAIL_COLUMNS,
    INSIDE_COLUMNS,
    PLUGIN_COLUMNS,
    backend_rows,
    build_facts,
    detail_rows,
    info_facts,
    inside_facts,
    plugin_rows,
)
from loopcore.errors import LoopcoreError, UsageError
from loopcore.text import printable

RUN_HELP = """\
Run an existing asyncio program on loopcore, unchanged. Arguments after the program are passed to it.

  loopcore run server.py --port 8000        a file (or a directory or zip with a __main__.py)
  loopcore run -m package.server            a module, as `python -m` would
  loopcore run package.server:main alice    a coroutine function, called with strings
"""


def make_parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser for the command line `words`, and the parsers of the commands by name.

    Raises LoopcoreError if the requested command comes from another package and cannot be used.
    """
    parser = argparse.ArgumentParser(prog="loopcore", description="An asyncio event loop that can be taken apart.")
    parser.add_argument("--version", action="version", version=f"loopcore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run a program on loopcore",
        description=RUN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="loopcore run [--backend B] [--plugin P]... [--debug] (FILE | -m MODULE | MODULE:FUNCTION) [ARG]...",
    )
    run.add_argument("--backend", metavar="B", help="a name, a list in order of preference (epoll,poll), or auto")
    run.add_argument(
        "--plugin", metavar="P", action="append", default=[], help="NAME[:OPTION=VALUE,OPTION=VALUE]; may be repeated"
    )
    run.add_argument("--debug", action="store_true", help="asyncio's debug mode for every loop")
    run.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="a module to run")
    run.add_argument("target", nargs=argparse.REMAINDER, metavar="FILE", help="a file or MODULE:FUNCTION to run")
    for name, act, text in (
        ("backends", report_backends, "list the installed backends, and which can run here"),
        ("plugins", report_plugins, "list the installed plugins"),
        ("info", report_info, "print versions, platform, the chosen backend, and what is compiled"),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".", allow_abbrev=False)
        command.add_argument("--json", action="store_true", help="print JSON, for another program to read")
        command.set_defaults(act=act)
    add_commands(commands, tuple(commands.choices), words)
    return parser, commands.choices


def prepare_program(arguments: argparse.Namespace) -> Program:
    """Return the program that `loopcore run` was given, ready to run. Raises LoopcoreError if it cannot be run."""
    words = arguments.target if arguments.module is None else arguments.module
    if not words:
        raise UsageError("nothing to run: name a FILE, -m MODULE or MODULE:FUNCTION")
    apply_settings(Settings(arguments.backend, tuple(arguments.plugin), arguments.debug))
    find = find_target if arguments.module is None else find_module
    return find(words[0], words[1:])


def report_backends(arguments: argparse.Namespace) -> int:
    """`loopcore backends`."""
    rows = backend_rows()
    if arguments.json:
        show_json(rows)
    else:
        show_table(BACKEND_COLUMNS, rows, empty="no backend is installed")
    return 0


def report_plugins(arguments: argparse.Namespace) -> int:
    """`loopcore plugins`."""
    rows = plugin_rows()
    if arguments.json:
        show_json(rows)
    else:
        show_table(PLUGIN_COLUMNS, rows, empty="no plugin is installed")
    return 0


def report_info(arguments: argparse.Namespace) -> int:
    """`loopcore info`."""
    facts, build, insides = info_facts(), build_facts(), inside_facts()
    if arguments.json:
        show_json(facts | {"build": build, "backends": insides})
        return 0
    show_facts(facts | {"build": build["summary"]})
    print()
    show_table(INSIDE_COLUMNS, insides, empty="no backend is installed")
    details = detail_rows(insides)
    if details:
        print()
        show_table(DETAIL_COLUMNS, details, empty="")
    if build["modules"]:
        print()
        show_table(("module", "build"), build["modules"], empty="")
    for name in map(printable, build["stale"]):
        print(f"loopcore: warning: {name} was compiled from an older source; edits have no effect", file=sys.stderr)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: `sys.argv[1:]`) and return its exit code.

    Exceptions of the program pass through, so that it ends as it would under `python`.
    """
    sys.excepthook = show_program_error
    words = sys.argv[1:] if argv is None else argv
    try:
        with report():
            parser, commands = make_parser(words)
            arguments, unknown = parser.parse_known_args(words)
            if unknown:
                commands[arguments.command].error(f"unrecognized arguments: {' '.join(unknown)}")
            if arguments.command != "run":
                return int(arguments.act(arguments))
        program = prepare_program(arguments)
    except LoopcoreError as error:
        print(f"loopcore: error: {printable(error)}", file=sys.stderr)
        return 2
    program.execute()
    return 0
