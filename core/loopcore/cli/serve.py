"""The command `serve`: an ASGI application on all processors."""

import argparse
import ast
import os
from typing import Any, Final

from loopcore.cli.program import set_path
from loopcore.errors import UsageError

SERVE_HELP: Final = """\
Serve an ASGI application with a loop on each processor.

The loops run in processes, or in threads of one process where Python runs without the GIL. Ctrl-C or SIGTERM drains:
the server accepts nothing more, and ends when the last response has, at the latest after --drain seconds.

  loopcore serve app:app                       the object app in the module app
  loopcore serve --factory app:create_app      what a function returns
  loopcore serve app:app --set log_level=warning --set root_path=/api
"""


def serve(parser: argparse.ArgumentParser) -> None:
    """Serve an ASGI application with a loop on each processor."""
    parser.description = SERVE_HELP
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("app", metavar="APP", help="the application: MODULE:ATTRIBUTE")
    parser.add_argument("--server", default="uvicorn", help="uvicorn (the default) or hypercorn")
    parser.add_argument("--loops", type=int, metavar="N", help="how many loops; by default one for each processor")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--threads",
        dest="kind",
        action="store_const",
        const="threads",
        default="auto",
        help="all loops in this process",
    )
    kind.add_argument(
        "--processes", dest="kind", action="store_const", const="processes", help="a process for each loop"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to accept from (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="the port; 0 takes any free one (default: 8000)")
    parser.add_argument("--uds", metavar="PATH", help="accept from a Unix socket instead")
    parser.add_argument("--fd", type=int, metavar="N", help="accept from an inherited listening socket instead")
    parser.add_argument(
        "--drain", type=float, default=30.0, metavar="SECONDS", help="how long open responses may take (default: 30)"
    )
    parser.add_argument("--factory", action="store_true", help="APP is a function that returns the application")
    parser.add_argument("--shared-app", action="store_true", help="one application and one lifespan for all threads")
    parser.add_argument(
        "--set",
        dest="options",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the server: an argument of uvicorn.Config, or an attribute of hypercorn's Config",
    )
    parser.set_defaults(act=run_server, group="Run a program")


def run_server(arguments: argparse.Namespace) -> int:
    """`loopcore serve`."""
    from loopcore.serving.command import serve as serve_application

    set_path(os.getcwd())
    return serve_application(
        arguments.app,
        server=arguments.server,
        loops=arguments.loops,
        kind=arguments.kind,
        host=arguments.host,
        port=arguments.port,
        uds=arguments.uds,
        fd=arguments.fd,
        drain=arguments.drain,
        factory=arguments.factory,
        shared_app=arguments.shared_app,
        options=dict(map(read_option, arguments.options)),
    )


def read_option(text: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE: a Python literal, true or false, or else text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--set takes NAME=VALUE, as in --set log_level=warning, not {text!r}")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
