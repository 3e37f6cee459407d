"""Gather the facts that `backends`, `plugins` and `info` print, as plain values that can be shown as JSON."""

import inspect
import os
import platform
import sys
from importlib import metadata
from typing import Any, Final

from loopcore.build_info import describe_build, has_gil, package_build
from loopcore.errors import LoopcoreError
from loopcore.selection.discovery import (
    BACKENDS,
    PLUGINS,
    choose_backend,
    describe_backends,
    list_backends,
    list_plugins,
)
from loopcore.selection.plugin_options import options_of

BACKEND_COLUMNS: Final = ("name", "available", "chosen", "distribution", "reason")
PLUGIN_COLUMNS: Final = ("name", "available", "distribution", "reason")
OPTION_COLUMNS: Final = ("option", "type", "default")
SHORT_COLUMNS: Final = ("backend", "available", "build", "reason")
INSIDE_COLUMNS: Final = ("backend", "module", "build", "reason")
DETAIL_COLUMNS: Final = ("backend", "detail", "state")


def installed_version(distribution: str) -> str | None:
    """Return the version of `distribution`; None if it is only on the path."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def backend_rows() -> list[dict[str, Any]]:
    """Return a row for each installed backend. `chosen` marks the one that a new loop would get."""
    try:
        chosen = choose_backend().name
    except LoopcoreError:  # none is chosen; the reasons in the rows say why
        chosen = None
    return [{**row._asdict(), "chosen": row.name == chosen} for row in list_backends()]


def backend_facts(name: str) -> dict[str, Any]:
    """Return the facts about one backend, with its details. Raises UsageError if it is unknown or not installed."""
    BACKENDS.find(name)
    (row,) = (row for row in backend_rows() if row["name"] == name)
    (inside,) = (inside for inside in inside_facts() if inside["backend"] == name)
    return {**row, "target": inside["module"], "build": inside["build"], "details": inside["details"]}


def plugin_rows() -> list[dict[str, Any]]:
    """Return a row for each installed plugin."""
    return [row._asdict() for row in list_plugins()]


def plugin_facts(name: str) -> dict[str, Any]:
    """Return the facts about one plugin, with its options. Raises UsageError if it is unknown or cannot be imported."""
    declaration = PLUGINS.find(name)
    target = PLUGINS.load(declaration)
    return {
        "name": name,
        "summary": (inspect.getdoc(target) or "").partition("\n")[0],
        "distribution": declaration.distribution,
        "target": declaration.target,
        "options": [option._asdict() for option in options_of(f"plugin {name!r}", target)],
    }


def info_facts() -> dict[str, Any]:
    """Return the facts for a bug report: versions, platform, the chosen backend and why, our variables."""
    try:
        choice = choose_backend()
        backend, why = choice.name, choice.reason
    except LoopcoreError as error:
        backend, why = None, str(error)
    return {
        "loopcore": installed_version("loopcore"),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "gil": "on" if has_gil() else "off; the plugin convoy has no effect",
        "executable": sys.executable,
        "platform": platform.platform(),
        "pluggy": installed_version("pluggy"),
        "backend": backend,
        "why": why,
        "variables": [
            f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("LOOPCORE_") and value
        ],
    }


def inside_facts() -> list[dict[str, Any]]:
    """Return for each backend where its code is, whether it is compiled, why it cannot run here, and its details."""
    return [
        {
            "backend": each.name,
            "module": each.target,
            "build": package_build(each.target.partition(":")[0]),
            "reason": each.reason,
            "details": dict(each.details),
        }
        for each in describe_backends()
    ]


def short_rows(insides: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the facts about each backend that fit a line: a reason without its advice."""
    return [
        {
            "backend": inside["backend"],
            "available": not inside["reason"],
            "build": inside["build"],
            "reason": inside["reason"].partition("cannot run here: ")[2].partition(";")[0] or inside["reason"],
        }
        for inside in insides
    ]


def detail_rows(insides: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the details of all backends, one per row."""
    return [
        {"backend": inside["backend"], "detail": detail, "state": state}
        for inside in insides
        for detail, state in inside["details"].items()
    ]


def build_facts() -> dict[str, Any]:
    """Return which modules are compiled, and the reason if none is."""
    build = describe_build()
    compiled = sum(module.compiled for module in build.modules)
    if build.compiled:
        made = ", ".join(f"{name} {text}" for name, text in build.tools.items())
        summary = f"compiled ({compiled} of {len(build.modules)} modules{'; ' * bool(made)}{made})"
    else:
        # PyPy compiles the pure build itself.
        slow = platform.python_implementation() == "CPython"
        cost = " (interpreted, slower than asyncio; for trying out and debugging)" if slow else ""
        summary = f"pure{cost}: {build.reason}"
    states = {(True, False): "compiled", (True, True): "stale", (False, False): "pure"}
    return {
        "summary": summary,
        "compiled": build.compiled,
        "reason": build.reason,
        "stale": list(build.stale),
        "tools": build.tools,
        "modules": [
            {"module": module.name, "build": states[module.compiled, module.stale]} for module in build.modules
        ],
    }
