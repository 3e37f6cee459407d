"""`loopcore new`: a fresh copy of a template, under a new name.

The templates are the distributions in backends/template and plugins/template of the sources, which are tested there; a
wheel has them in `templates` next to this module. A copy differs from them only by the name; a file whose name begins
with a dot is `dot-...` in them, so that a wheel installs no hidden files.
"""

import keyword
import os
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from loopcore.errors import UsageError
from loopcore.selection.catalogue import AUTO
from loopcore.selection.discovery import AUTO_ORDER, OTHERS

HERE: Final = Path(__file__).parent
KINDS: Final = {"backend": "backends", "plugin": "plugins"}
WORD: Final = "template"
NAME: Final = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?")
LEFT_OUT: Final = frozenset({"__pycache__", ".pytest_cache", "dist", "build"})
BUILT: Final = (".pyc", ".c", ".so", ".pyd")
"""What building a template leaves next to its sources."""


def template_of(kind: str) -> Path:
    """Return the folder of the template: in the wheel, else in the sources. Raises UsageError if there is none."""
    for folder in (HERE / "templates" / kind, HERE.parents[2] / KINDS[kind] / WORD):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise UsageError(f"this installation has no template of a {kind}; reinstall loopcore from its wheel")


def plugins_of_loopcore() -> list[str]:
    """Return the names of the plugins that are part of loopcore."""
    return [each.name for each in distribution("loopcore").entry_points if each.group == "loopcore.plugins"]


def check_name(kind: str, name: str) -> None:
    """Raise UsageError if `name` cannot be the name of a module, or is taken."""
    if keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be the name of a {kind}: it is a keyword of Python; try: loopcore new {kind} my_{name}"
        )
    if not NAME.fullmatch(name):
        close = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        hint = f"; try: loopcore new {kind} {close}" if NAME.fullmatch(close) and not keyword.iskeyword(close) else ""
        raise UsageError(
            f"{name!r} cannot be the name of a {kind}: use small letters, digits, - and _, a letter first{hint}"
        )
    taken = (AUTO, *AUTO_ORDER, *OTHERS) if kind == "backend" else plugins_of_loopcore()
    if name == WORD or name in taken:
        raise UsageError(f"{name!r} is taken; choose another name, as in: loopcore new {kind} my_{name}")


def files_of(folder: Path) -> Iterator[Path]:
    """Return the files of a template, relative to it."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in LEFT_OUT and not each.endswith(".egg-info"))
        yield from (Path(place, name).relative_to(folder) for name in sorted(names) if not name.endswith(BUILT))


def renamed(text: str, name: str) -> str:
    """Return `text` with the template's name replaced by `name`."""
    return text.replace(WORD, name).replace(WORD.title(), name.title().replace("_", ""))


def write_copy(kind: str, name: str, into: Path) -> Path:
    """Write the distribution `loopcore-KIND-NAME` in the folder `into`, which exists; return it. Overwrites nothing."""
    name = name.replace("-", "_")  # as in names of distributions
    check_name(kind, name)
    template, target = template_of(kind), into / f"loopcore-{kind}-{name.replace('_', '-')}"
    if not into.exists():
        raise UsageError(f"there is no folder {str(into)!r}; make it first: mkdir -p {shlex.quote(str(into))}")
    if target.exists():
        raise UsageError(f"{target} exists already; remove it, or choose another folder, as in: --into FOLDER")
    try:
        for file in files_of(template):
            copy = target / renamed(re.sub(r"^dot-", ".", str(file)), name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(renamed((template / file).read_text(encoding="utf-8"), name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {str(target)!r}: {error.strerror}") from None
    return target
