"""What the build did: which hot modules are compiled, or why none is.

A module is hot if there is a `.pxd` next to its `.py`, except in a folder `_native`, whose modules are the Python side
of a C library, and in `templates`, which `loopcore new` copies. The import system, not the build, says whether a module
is compiled: it prefers an extension to a source of the same name. The build's own notes (`_build_info.json`, written by
core/build_ext.py) give the reason for a pure build and the digest of each source that was compiled. The digest
detects a stale extension, which would hide every later edit of its source. File times cannot detect it, because pip
gives both files the time of the installation.
"""

import hashlib
import importlib.util
import json
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Final, NamedTuple

PACKAGE: Final = Path(__file__).parent
NOTES: Final = "_build_info.json"


class ModuleBuild(NamedTuple):
    """One hot module: its name, whether `import` loads an extension, and whether that extension is out of date."""

    name: str
    compiled: bool
    stale: bool


class Build(NamedTuple):
    """The whole build. `reason` says why it is pure, and is empty if it is compiled.

    `tools` holds Cython's version and the C compiler's name, as far as the build recorded them.
    """

    modules: tuple[ModuleBuild, ...]
    reason: str
    tools: dict[str, str] = {}

    @property
    def compiled(self) -> bool:
        return any(module.compiled for module in self.modules)

    @property
    def stale(self) -> tuple[str, ...]:
        return tuple(module.name for module in self.modules if module.stale)


def read_notes(package: Path = PACKAGE) -> dict[str, Any]:
    """Return the build's notes; empty if no build wrote any (a bare source tree on the path)."""
    try:
        notes = json.loads((package / NOTES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def hot_sources(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the sources that are compiled, by module name."""
    found = {}
    for header in sorted(package.rglob("*.pxd")):
        source = header.with_suffix(".py")
        if source.is_file() and source.stem != "__init__" and source.parent.name != "_native":
            path = source.relative_to(package.parent).with_suffix("")
            if "templates" not in path.parts:
                found[".".join(path.parts)] = source
    return found


def describe_module(name: str, source: Path, digests: dict[str, str]) -> ModuleBuild:
    """Return whether `name` is compiled, and whether its extension was built from a different version of `source`."""
    spec = importlib.util.find_spec(name)
    origin = spec.origin if spec is not None else None
    if origin is None or not origin.endswith(tuple(EXTENSION_SUFFIXES)):
        return ModuleBuild(name, False, False)
    if name in digests:
        stale = hashlib.sha256(source.read_bytes()).hexdigest() != digests[name]
    else:  # compiled by hand
        stale = Path(origin).stat().st_mtime < source.stat().st_mtime
    return ModuleBuild(name, True, stale)


def package_build(module: str) -> str:
    """Return the state of the module or package `module`: `compiled`, `pure`, or `stale` if any part of it is.

    A package's parts are the modules below it that have a `.pxd`, whichever distribution built them. A module that
    cannot be found, such as `__main__` or one created by a test, is `pure`.
    """
    try:
        spec = importlib.util.find_spec(module)
        root = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return "pure"
    if spec is None or root is None:
        return "pure"
    digests = read_notes().get("sources", {})
    found = [ModuleBuild(module, (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)), False)]
    for folder in root.submodule_search_locations or ():
        for name, source in hot_sources(Path(folder)).items():
            if name == module or name.startswith(f"{module}."):
                found.append(describe_module(name, source, digests))
    if any(part.stale for part in found):
        return "stale"
    return "compiled" if any(part.compiled for part in found) else "pure"


def describe_build() -> Build:
    """Return the state of every hot module, and the reason if none is compiled."""
    notes = read_notes()
    digests = notes.get("sources", {})
    modules = tuple(describe_module(name, source, digests) for name, source in hot_sources().items())
    if any(module.compiled for module in modules):
        return Build(modules, "", {name: notes[name] for name in ("cython", "compiler") if notes.get(name)})
    return Build(modules, notes.get("reason") or "nothing was built: this is a source tree")


def has_gil() -> bool:
    """Return whether threads of this process take turns: always, unless a free-threaded Python runs. Thread: any."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())
