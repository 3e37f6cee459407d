"""Completion in bash, zsh and fish, through argcomplete, which is imported only to complete, or to print its scripts.

When the user presses TAB, the script of argcomplete runs `loopcore` with the variable `_ARGCOMPLETE` and the line typed
so far; argcomplete then prints the words that may follow and ends the process.
"""

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Final

from loopcore.cli.parsing import Parser, add_global_options
from loopcore.errors import LoopcoreError, UsageError

LINE: Final = "COMP_LINE"
SHELLS: Final = ("bash", "zsh", "fish")
FAILED: Final = 1

INSTALL: Final = """\
Print the script that completes commands and options of loopcore in a shell.

  bash   add to ~/.bashrc:  eval "$(loopcore completion bash)"
  zsh    add to ~/.zshrc, after compinit:  eval "$(loopcore completion zsh)"
  fish   run once:  loopcore completion fish > ~/.config/fish/completions/loopcore.fish

It needs argcomplete: pip install "loopcore[completion]"
"""


def completion(parser: argparse.ArgumentParser) -> None:
    """Print the script that completes commands and options in a shell."""
    parser.description = INSTALL
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    parser.set_defaults(act=print_script, group="Get help")


def print_script(arguments: argparse.Namespace) -> int:
    """`loopcore completion`."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise UsageError('completion needs argcomplete: pip install "loopcore[completion]"') from None
    print(shellcode(["loopcore"], shell=arguments.shell))
    return 0


def complete(names: Iterable[str], make: Callable[[str], Parser]) -> int:
    """Print the words that complete the line, and end the process. Returns an exit code if argcomplete is missing.

    `make` returns the parser of a command; only the command that the line contains is asked for.
    """
    try:
        import argcomplete
    except ImportError:
        return FAILED
    parser = argparse.ArgumentParser(prog="loopcore", allow_abbrev=False)
    add_global_options(parser)
    parser.add_argument("-V", "--version", action="store_true")
    commands: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers()
    words = os.environ.get(LINE, "").split()
    for name in names:
        parents = []
        if name in words:
            try:
                parents = [make(name)]
            except LoopcoreError:  # it cannot be imported; its name can be completed all the same
                pass
        commands.add_parser(name, parents=parents, add_help=not parents, allow_abbrev=False)
    argcomplete.autocomplete(parser)
    return FAILED
