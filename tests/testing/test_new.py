"""`loopcore new`: the copy has the name, and passes its own tests beside loopcore."""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from loopcore.errors import UsageError
from loopcore.testing import commands, scaffold


def write(kind: str, name: str, into: Path) -> Path:
    parser = argparse.ArgumentParser()
    commands.new(parser)
    arguments = parser.parse_args([kind, name, "--into", str(into)])
    assert arguments.act(arguments) == 0
    return into / f"loopcore-{kind}-{name.replace('_', '-')}"


def installed(folder: Path, site: Path) -> None:
    """Declare what `folder` has as pip would, without building it."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(text, encoding="utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
        for group, names in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("".join(groups), encoding="utf-8")


def passes(folder: Path, site: Path, *more: str) -> str:
    installed(folder, site)
    paths = os.pathsep.join([str(folder), str(site), *(path or os.getcwd() for path in sys.path)])
    options = ["-q", "-p", "loopcore_pytest", "-p", "no:cacheprovider", *more]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the template stands on poll(2)")
def test_new_backend_passes_the_contract_at_once(tmp_path: Path) -> None:
    folder = write("backend", "my_poll", tmp_path)
    assert (folder / "loopcore_backend_my_poll.py").is_file()
    assert "class MyPollBackend" in (folder / "loopcore_backend_my_poll.py").read_text(encoding="utf-8")
    assert re.search(r"\b\d\d+ passed", passes(folder, tmp_path / "site"))


def test_new_plugin_passes_its_tests_at_once(tmp_path: Path) -> None:
    passes(write("plugin", "census", tmp_path), tmp_path / "site")


@pytest.mark.parametrize("kind", ["backend", "plugin"])
def test_plugin_of_pytest_that_warns_as_it_is_loaded_stops_no_tests_but_a_warning_fails_one(
    kind: str, tmp_path: Path
) -> None:
    folder = write(kind, "mine", tmp_path)
    (folder / "outdated.py").write_text(
        "import pytest, warnings\nwarnings.warn(pytest.PytestDeprecationWarning('old'))\n"
    )
    tests = folder / "tests" / "test_own.py"
    tests.write_text("def test_it(): pass\n")
    only = ("-p", "outdated", "tests/test_own.py")
    assert "1 passed" in passes(folder, tmp_path / "site", *only)
    tests.write_text("import warnings\ndef test_it(): warnings.warn('mine', DeprecationWarning)\n")
    with pytest.raises(AssertionError, match="DeprecationWarning: mine"):
        passes(folder, tmp_path / "other", *only)


@pytest.mark.parametrize("kind", ["backend", "plugin"])
def test_copy_is_complete_and_has_nothing_of_the_templates_name(kind: str, tmp_path: Path) -> None:
    folder = write(kind, "mine", tmp_path)
    names = {str(file) for file in scaffold.files_of(folder)}
    assert {"README.md", "pyproject.toml", os.path.join(".github", "workflows", "test.yml")} <= names
    assert any(name.startswith("tests") for name in names)
    assert (".gitignore" in names) == (kind == "plugin")
    assert not [file for file in scaffold.files_of(scaffold.template_of(kind)) if str(file).startswith(".")]
    for name in names:
        assert "template" not in name
        assert "dot-" not in name
        assert "template" not in (folder / name).read_text(encoding="utf-8").lower()


def test_what_a_build_left_in_a_template_is_not_copied(tmp_path: Path) -> None:
    for name in ("module.py", "module.c", "module.cpython-314-x86_64-linux-gnu.so", "module.cp314-win_amd64.pyd"):
        (tmp_path / name).touch()
    assert list(scaffold.files_of(tmp_path)) == [Path("module.py")]


@pytest.mark.parametrize("name", ["", "My", "my.poll", "class", "9lives", "epoll", "auto", "template", "ring_", "../x"])
def test_name_that_cannot_be_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name"):
        scaffold.write_copy("backend", name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("class", "it is a keyword of Python; try: loopcore new backend my_class"),
        ("My Ring", "a letter first; try: loopcore new backend my_ring"),
        ("epoll", "is taken; choose another name, as in: loopcore new backend my_epoll"),
    ],
)
def test_refusal_of_a_name_suggests_another(name: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=hint):
        scaffold.write_copy("backend", name, tmp_path)


def test_hyphen_in_a_name_is_an_underscore_in_the_module(tmp_path: Path) -> None:
    folder = write("plugin", "my-plug", tmp_path)
    assert folder.name == "loopcore-plugin-my-plug"
    assert "my_plug" in (folder / "pyproject.toml").read_text(encoding="utf-8")


def test_name_of_a_plugin_of_loopcores_own_is_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'metrics' is taken"):
        scaffold.write_copy("plugin", "metrics", tmp_path)


def test_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*loopcore-plugin-mine"):
        scaffold.write_copy("plugin", "mine", tmp_path / "file")


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    folder = write("plugin", "mine", tmp_path)
    with pytest.raises(UsageError, match=r"exists already.*--into"):
        scaffold.write_copy("plugin", "mine", tmp_path)
    assert folder.is_dir()


def test_installation_without_templates_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaffold, "HERE", tmp_path / "a" / "b" / "c")
    with pytest.raises(UsageError, match="no template of a plugin"):
        scaffold.write_copy("plugin", "mine", tmp_path)
