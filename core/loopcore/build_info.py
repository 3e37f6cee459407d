"""What the build did: which hot modules are compiled, and if none is, why.

A module is hot if a `.pxd` lies beside its `.py`. Whether it is compiled is not asked of the build but of
the import system, which prefers an extension to a source of the same name. The build's own notes
(`_build_info.json`, written by core/build_ext.py) give the reason of a pure build and the digest of each
source that was compiled. The digest tells a stale extension, which hides every later edit of its source;
times of files would not, because pip gives both files the time of the installation.
"""

import hashlib
import importlib.util
import json
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Final, NamedTuple

PACKAGE: Final = Path(__file__).parent
NOTES: Final = "_build_info.json"


class ModuleBuild(NamedTuple):
    """One hot module: its name, whether an extension is what `import` takes, and whether that is out of date."""

    name: str
    compiled: bool
    stale: bool


class Build(NamedTuple):
    """The whole build. `reason` says why it is pure, and is empty for one that is compiled.

    `tools` are Cython's version and the C compiler's name, as far as the build noted them.
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
    """Return the build's notes; empty where no build wrote any (a bare source tree on the path)."""
    try:
        notes = json.loads((package / NOTES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def hot_sources(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the sources that have a `.pxd` beside them, by module name."""
    found = {}
    for header in sorted(package.rglob("*.pxd")):
        source = header.with_suffix(".py")
        if source.is_file() and source.stem != "__init__":
            path = source.relative_to(package.parent).with_suffix("")
            found[".".join(path.parts)] = source
    return found


def describe_module(name: str, source: Path, digests: dict[str, str]) -> ModuleBuild:
    """Tell whether `name` is compiled, and whether its extension was made from another text of `source`."""
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
    """Tell how `module`, or the package of this name, is here: `compiled`, `pure`, or `stale` if a part of it is.

    What belongs to it is what lies below it and has a `.pxd`, whoever has built it. A module that cannot be found, as
    `__main__` or one that a test has made, is `pure`.
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
    return Build(modules, notes.get("reason") or "nothing was built: the source tree is used as it is")
