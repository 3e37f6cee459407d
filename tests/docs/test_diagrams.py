"""The manual's diagrams follow the tables in the code: what changes there changes them, and nothing else is drawn."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from loopcore.hooks import specs as hookspecs
from loopcore.kernel import phases
from loopcore.ports.completion import CompletionBackend
from loopcore.ports.readiness import ReadinessBackend

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def diagrams() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diagrams", DOCS / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(svg: str) -> list[str]:
    """Return the texts of a picture, which has to be XML, and none of which may be cut off on the right."""
    root = ET.fromstring(svg)
    assert root.attrib["viewBox"].split()[:2] == ["0", "0"]
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_tick_has_the_phases_in_their_order(diagrams: ModuleType) -> None:
    told = words(diagrams.draw_tick())
    assert [word for word in told if word in phases.PHASES] == list(phases.PHASES)
    assert told.count("takes callbacks") == len(phases.OPEN_PHASES)


def test_tick_follows_the_table(diagrams: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "PHASES", ("idle", "poll", "rest"))
    monkeypatch.setattr(phases, "OPEN_PHASES", ("rest",))
    told = words(diagrams.draw_tick())
    assert "rest" in told
    assert "timers" not in told
    assert told.count("takes callbacks") == 1


def test_layers_are_those_of_the_contract_in_their_order(diagrams: ModuleType) -> None:
    settings = tomllib.loads(diagrams.SETTINGS.read_text(encoding="utf-8"))
    (rows,) = [each["layers"] for each in settings["tool"]["importlinter"]["contracts"] if each["id"] == "layers"]
    found = diagrams.layers()
    assert len(found) == len(rows)
    for layer, row in zip(found, rows, strict=True):
        assert all(module in row for module in layer.modules)
    drawn = " ".join(words(diagrams.draw_layers()))
    assert all(module in drawn for layer in found for module in layer.modules)


def test_layers_say_who_imports_what(diagrams: ModuleType) -> None:
    signs = {module: layer.signs for layer in diagrams.layers() for module in layer.modules}
    assert signs["ports"]["backends"] == diagrams.IMPORTED
    assert signs["errors"] == {"backends": diagrams.IMPORTED, "plugins": diagrams.IMPORTED}
    assert signs["kernel"] == {"backends": diagrams.FORBIDDEN, "plugins": diagrams.FORBIDDEN}


def test_new_layer_is_drawn(diagrams: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = diagrams.SETTINGS.read_text(encoding="utf-8").replace('    "kernel",\n', "")
    changed = tmp_path / "pyproject.toml"
    changed.write_text(text, encoding="utf-8")
    monkeypatch.setattr(diagrams, "SETTINGS", changed)
    assert "kernel" not in words(diagrams.draw_layers())


@pytest.mark.parametrize(("protocol", "other"), [(ReadinessBackend, "submit"), (CompletionBackend, "register")])
def test_port_has_the_members_of_its_protocol(diagrams: ModuleType, protocol: Any, other: str) -> None:
    names = {member.partition("(")[0] for member in diagrams.port(protocol)}
    public = {name for name in vars(protocol) if not name.startswith("_")} | {*protocol.__annotations__}
    assert names == public
    assert other not in names
    assert set(diagrams.port(protocol)) <= set(words(diagrams.draw_ports()))


def test_every_hook_is_drawn_once(diagrams: ModuleType) -> None:
    every = sorted(name for name in vars(hookspecs) if name.startswith("loopcore_"))
    told = [f"loopcore_{name}" for names in diagrams.hooks().values() for name in names]
    assert sorted(told) == every
    drawn = " ".join(words(diagrams.draw_hooks()))
    assert all(name.removeprefix("loopcore_") in drawn for name in every)


def test_every_diagram_has_its_place_in_the_manual(diagrams: ModuleType) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert [name for name in diagrams.DIAGRAMS if f"```{{diagram}} {name}\n" not in pages] == []
