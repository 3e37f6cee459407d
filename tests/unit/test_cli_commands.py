"""Commands that other packages add to `loopcore`."""

import argparse
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loopcore.cli import main
from loopcore.cli.commands import COMMANDS
from loopcore.errors import UsageError
from tests.unit.test_cli import assert_refused, loopcore, path_with


def greet(parser: argparse.ArgumentParser) -> None:
    """Greet somebody, 100 % politely.

    With a second paragraph.
    """
    parser.add_argument("name")
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    if arguments.name == "nobody":
        raise UsageError("there is nobody")
    sys.stdout.write(f"hello {arguments.name}\n")
    return 7


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Declares commands as an installed distribution would, in place of all that are installed."""

    def declare(**commands: Any) -> None:
        def entry(name: str, load: Any) -> Any:
            dist = SimpleNamespace(name="greetings", version="1")
            return SimpleNamespace(name=name, value=f"greetings:{name}", dist=dist, load=load)

        entries = [entry(name, load) for name, load in commands.items()]
        others = metadata.entry_points  # backends and plugins stay what they are: catalogues remember what they read
        monkeypatch.setattr(
            metadata, "entry_points", lambda group: entries if group == COMMANDS.group else others(group=group)
        )
        monkeypatch.setattr(COMMANDS, "_installed", None)
        monkeypatch.setattr(COMMANDS, "_loaded", {})

    return declare


def fail() -> object:
    raise ImportError("no such thing")


def fail_oddly() -> object:
    raise ImportError("no\x1b[2J such\nthing")


@pytest.fixture(autouse=True)
def _keep_excepthook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.excepthook", None)


def test_a_command_is_carried_out_and_gives_the_exit_code(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    install(greet=lambda: greet)
    assert main(["greet", "Ada"]) == 7
    assert capsys.readouterr().out == "hello Ada\n"


def test_its_errors_are_one_line_and_exit_code_two(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    install(greet=lambda: greet)
    assert main(["greet", "nobody"]) == 2
    assert capsys.readouterr().err == "loopcore: error: there is nobody\n"


def test_the_help_lists_all_with_the_first_line_of_their_docstring(
    install: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install(greet=lambda: greet, broken=fail)
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "greet greet somebody, 100 % politely" in shown
    assert "broken cannot be used: command 'broken' (greetings:broken of greetings 1) cannot be imported" in shown


def test_an_error_of_a_package_is_no_command_to_the_terminal(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 32."""
    install(broken=fail_oddly)
    assert main(["--help"]) == 0
    assert main(["broken"]) == 2
    shown = capsys.readouterr()
    assert r"no\x1b[2J such\nthing" in " ".join(shown.out.split())
    assert r"no\x1b[2J such\nthing" in shown.err
    assert "\x1b" not in shown.out + shown.err


def test_a_command_that_cannot_be_imported_says_so(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    install(broken=fail, number=lambda: 3)
    assert main(["broken"]) == 2
    assert "no such thing" in capsys.readouterr().err
    assert main(["number"]) == 2
    assert "takes no parser" in capsys.readouterr().err


def test_only_the_command_that_is_asked_for_is_imported(install: Any) -> None:
    loaded: list[str] = []
    install(greet=lambda: greet, other=lambda: loaded.append("other"))
    assert main(["greet", "Ada"]) == 7
    assert loaded == []


def test_built_in_commands_look_for_no_others_and_cannot_be_replaced(install: Any) -> None:
    install(plugins=fail, backends=fail)
    assert main(["plugins", "--json"]) == 0
    assert COMMANDS._installed is None


def completions(line: str, folder: Path) -> list[str]:
    """Return what a shell shows for `line` when TAB is pressed at its end."""
    pytest.importorskip("argcomplete")
    answer = folder / "answer"
    env = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    result = loopcore(cwd=folder, env=env)
    assert (result.returncode, result.stdout) == (0, "")
    return [word.strip() for word in answer.read_text().splitlines()]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("loopcore ru", "run"),
        ("loopcore --backend pol", "poll"),
        ("loopcore run --plugin watch", "watchdog"),
        ("loopcore run prog", "program.py"),
        ("loopcore plugins watch", "watchdog"),
        ("loopcore help inf", "info"),
        ("loopcore completion fi", "fish"),
        ("loopcore conformance pol", "poll"),
        ("loopcore top --int", "--interval"),
    ],
)
def test_shell_completes_commands_options_and_names(tmp_path: Path, line: str, word: str) -> None:
    (tmp_path / "program.py").touch()
    assert completions(line, tmp_path) == [word]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell_is_printed(tmp_path: Path, shell: str) -> None:
    pytest.importorskip("argcomplete")
    result = loopcore("completion", shell, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "_ARGCOMPLETE" in result.stdout
    assert "loopcore" in result.stdout


def test_without_argcomplete_no_command_is_carried_out(tmp_path: Path) -> None:
    (tmp_path / "argcomplete.py").write_text("raise ImportError")
    env = {"PYTHONPATH": path_with(tmp_path)}
    result = loopcore("completion", "bash", cwd=tmp_path, env=env)
    assert_refused(result, 'completion needs argcomplete: pip install "loopcore[completion]"')
    result = loopcore("info", cwd=tmp_path, env=env | {"_ARGCOMPLETE": "1", "COMP_LINE": "loopcore i"})
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "")


def test_names_of_its_arguments_are_its_own(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def convert(parser: argparse.ArgumentParser) -> None:
        """Convert."""
        parser.add_argument("--parser", default="json")
        parser.set_defaults(act=lambda arguments: sys.stdout.write(arguments.parser) * 0)

    install(convert=lambda: convert)
    assert main(["convert"]) == 0
    assert capsys.readouterr().out == "json"
    assert main(["convert", "--parser", "xml", "more"]) == 2
    assert "convert: takes no argument 'more'; see loopcore convert --help\n" in capsys.readouterr().err


def test_a_command_has_a_group_of_its_own_if_it_names_one(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def wave(parser: argparse.ArgumentParser) -> None:
        """Wave."""
        parser.set_defaults(act=lambda _: 0, group="Say something")

    install(greet=lambda: greet, wave=lambda: wave)
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "\nCommands of other packages:\n  greet " in shown
    assert "\nSay something:\n  wave " in shown


def test_an_option_before_a_command_is_not_one_of_its_arguments(
    install: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(arguments: argparse.Namespace) -> int:
        sys.stdout.write(f"{arguments.backend} {os.environ['LOOPCORE_BACKEND']}\n")
        return 0

    def show(parser: argparse.ArgumentParser) -> None:
        """Show."""
        parser.add_argument("backend")
        parser.set_defaults(act=say)

    install(show=lambda: show)
    monkeypatch.setenv("LOOPCORE_BACKEND", "select")
    assert main(["--backend", "poll", "show", "mine"]) == 0
    assert capsys.readouterr().out == "mine poll\n"
