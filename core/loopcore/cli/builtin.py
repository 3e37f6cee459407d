"""The commands `backends`, `plugins` and `info`: what is installed, and what can run here."""

import argparse
from typing import Final

from loopcore.cli.output import show_facts, show_json, show_table, warn
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
from loopcore.selection.environment import unknown_variables

GROUP: Final = "See what is installed"


def backends(parser: argparse.ArgumentParser) -> None:
    """List the installed backends, and which can run here."""
    _add_json(parser)
    parser.set_defaults(act=report_backends, group=GROUP)


def plugins(parser: argparse.ArgumentParser) -> None:
    """List the installed plugins."""
    _add_json(parser)
    parser.set_defaults(act=report_plugins, group=GROUP)


def info(parser: argparse.ArgumentParser) -> None:
    """Print versions, platform, the chosen backend, and what is compiled."""
    _add_json(parser)
    parser.set_defaults(act=report_info, group=GROUP)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for another program to read")


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
    for name in build["stale"]:
        warn(f"{name} was compiled from an older source; edits have no effect")
    for text in unknown_variables():
        warn(text)
    return 0
