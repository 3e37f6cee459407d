"""The commands `backends`, `plugins` and `info`: what is installed, and what can run here."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from loopcore.cli.output import show_facts, show_json, show_table, warn
from loopcore.cli.parsing import set_completer
from loopcore.cli.reports import (
    BACKEND_COLUMNS,
    DETAIL_COLUMNS,
    INSIDE_COLUMNS,
    OPTION_COLUMNS,
    PLUGIN_COLUMNS,
    SHORT_COLUMNS,
    backend_facts,
    backend_rows,
    build_facts,
    detail_rows,
    info_facts,
    inside_facts,
    plugin_facts,
    plugin_rows,
    short_rows,
)
from loopcore.selection.discovery import BACKENDS, PLUGINS
from loopcore.selection.environment import unknown_variables

GROUP: Final = "See what is installed"


def backends(parser: argparse.ArgumentParser) -> None:
    """List the installed backends, and which can run here; or the facts about one."""
    name = parser.add_argument("name", metavar="NAME", nargs="?", help="a backend, whose facts are shown")
    set_completer(name, BACKENDS.names)
    _add_json(parser)
    parser.set_defaults(act=report_backends, group=GROUP)


def plugins(parser: argparse.ArgumentParser) -> None:
    """List the installed plugins, or the options of one."""
    name = parser.add_argument("name", metavar="NAME", nargs="?", help="a plugin, whose options are listed")
    set_completer(name, PLUGINS.names)
    _add_json(parser)
    parser.set_defaults(act=report_plugins, group=GROUP)


def info(parser: argparse.ArgumentParser) -> None:
    """Print the facts for a bug report: versions, platform, backends, build."""
    parser.add_argument("--all", action="store_true", help="also list modules, and the details of backends")
    _add_json(parser)
    parser.set_defaults(act=report_info, group=GROUP)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for another program to read")


def report_backends(arguments: argparse.Namespace) -> int:
    """`loopcore backends`."""
    if arguments.name is not None:
        facts = backend_facts(arguments.name)
        if arguments.json:
            show_json(facts)
        else:
            show_facts(facts | facts.pop("details"))
        return 0
    return _report_rows(arguments, BACKEND_COLUMNS, backend_rows(), empty="no backend is installed")


def report_plugins(arguments: argparse.Namespace) -> int:
    """`loopcore plugins`."""
    if arguments.name is not None:
        return _report_plugin(arguments.name, as_json=arguments.json)
    return _report_rows(arguments, PLUGIN_COLUMNS, plugin_rows(), empty="no plugin is installed")


def _report_rows(
    arguments: argparse.Namespace, columns: Sequence[str], rows: list[dict[str, Any]], *, empty: str
) -> int:
    if arguments.json:
        show_json(rows)
    else:
        show_table(columns, rows, empty=empty)
    return 0


def _report_plugin(name: str, *, as_json: bool) -> int:
    facts = plugin_facts(name)
    if as_json:
        show_json(facts)
        return 0
    options = facts.pop("options")
    show_facts(facts)
    print()
    show_table(OPTION_COLUMNS, options, empty="it has no options")
    if options:
        first = options[0]["option"]
        print(f"\nloopcore run --plugin {name}:{first}=VALUE FILE")
    return 0


def report_info(arguments: argparse.Namespace) -> int:
    """`loopcore info`."""
    facts, build, insides = info_facts(), build_facts(), inside_facts()
    if arguments.json:
        show_json(facts | {"build": build, "backends": insides})
        return 0
    if arguments.all:
        show_facts(facts | {"build": build["summary"]})
        print()
        _show_everything(insides, build)
    else:
        why = facts["why"].partition(" (skipped: ")[0]  # the table has the reasons
        show_facts(facts | {"why": why, "build": build["summary"]})
        print()
        show_table(SHORT_COLUMNS, short_rows(insides), empty="no backend is installed")
        print("\n`loopcore info --all` adds the modules and the details of each backend")
    if facts["backend"] is None:
        warn(facts["why"])
    for name in build["stale"]:
        warn(f"{name} was compiled from an older source; edits have no effect")
    for text in unknown_variables():
        warn(text)
    return 0


def _show_everything(insides: list[dict[str, Any]], build: dict[str, Any]) -> None:
    show_table(INSIDE_COLUMNS, insides, empty="no backend is installed")
    for columns, rows in (DETAIL_COLUMNS, detail_rows(insides)), (("module", "build"), build["modules"]):
        if rows:
            print()
            show_table(columns, rows, empty="")
