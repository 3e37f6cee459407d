"""The API page has every public name, and no other."""

import asyncio
import builtins
import importlib
import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import loopcore
from loopcore import files, group, sim, streams, sync

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/api.md").read_text(encoding="utf-8")
NAMES = re.findall(r"^(?:\.\. |```\{)(?:auto|py:)(?!module)\w+(?:::|\}) ([\w.]+)", PAGE, re.MULTILINE)
MODULES = [sync.broadcast, sync.mpmc, sync.oneshot, sync.watch]


def found(name: str) -> Any:
    """Return the object with this dotted name."""
    module, *rest = name, *()
    while True:
        try:
            value = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
        else:
            break
    for each in rest:
        value = getattr(value, each)
    return value


def test_no_name_is_described_twice() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_every_public_name_is_described() -> None:
    public = {f"loopcore.{name}" for name in loopcore.__all__} - {"loopcore.files", "loopcore.sync"}
    assert {f"loopcore.{name}" for name in streams.__all__} <= public
    public |= {f"loopcore.files.{name}" for name in files.__all__}
    public |= {f"loopcore.group.{name}" for name in group.__all__ if name not in loopcore.__all__}
    public |= {f"loopcore.sim.{name}" for name in sim.__all__}
    public |= {f"loopcore.sync.{name}" for name in sync.__all__ if getattr(sync, name) not in MODULES}
    public |= {f"{module.__name__}.{name}" for module in MODULES for name in ("Channel", "Receiver", "Sender")}
    assert public <= set(NAMES)


def test_every_method_of_the_loop_is_described() -> None:
    with asyncio.Runner(loop_factory=loopcore.new_event_loop) as runner:
        public = {f"loopcore.EventLoop.{name}" for name in dir(runner.get_loop()) if not name.startswith("_")}
    assert {name for name in NAMES if name.startswith("loopcore.EventLoop.")} == public


def test_every_plugin_is_described() -> None:
    own = [entry for entry in entry_points(group="loopcore.plugins") if entry.value.startswith("loopcore_plugins.")]
    assert own
    assert {entry.value.replace(":", ".") for entry in own} <= set(NAMES)


def test_what_is_described_exists() -> None:
    for name in NAMES:
        found(name)


@pytest.mark.parametrize("line", (DOCS / "python-names.txt").read_text(encoding="utf-8").splitlines()[3:])
def test_references_to_python_are_names_of_python(line: str) -> None:
    """Sphinx resolves references by this file, so that a build needs no network."""
    name, kind, page = line.split()
    assert re.fullmatch(r"library/[\w.-]+\.html", page)
    if hasattr(builtins, name) or name == "None":
        return
    value = found(name.replace("asyncio.loop.", "asyncio.AbstractEventLoop."))
    assert kind == "data" or isinstance(value, type) == (kind == "class")
