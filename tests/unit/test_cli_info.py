"""`loopcore info`: what a bug report should say."""

import json
import sys
from pathlib import Path

from tests.backends.uring.kit import needs_uring
from tests.unit.test_cli import loopcore


def test_info_says_what_runs_and_why(tmp_path: Path):
    env = {"LOOPCORE_BACKEND": "poll", "LOOPCORE_BUILD_CACHE": ""}  # empty is unset
    facts = json.loads(loopcore("info", "--json", cwd=tmp_path, env=env).stdout)
    assert (facts["backend"], facts["variables"]) == ("poll", ["LOOPCORE_BACKEND=poll"])
    assert "LOOPCORE_BACKEND" in facts["why"]
    build = facts["build"]
    assert {module["build"] for module in build["modules"]} == {"compiled" if build["compiled"] else "pure"}
    assert bool(build["reason"]) is not build["compiled"]
    interpreted = not build["compiled"] and sys.implementation.name == "cpython"
    assert ("slower than asyncio" in build["summary"]) is interpreted
    text = loopcore("info", cwd=tmp_path)
    assert text.stderr == ""
    assert ["build", build["summary"]] in [line.split(maxsplit=1) for line in text.stdout.splitlines()]


def test_what_info_shows_is_no_command_to_the_terminal(tmp_path: Path):
    """Issue 32: values come from the environment, reasons from packages."""
    result = loopcore("info", cwd=tmp_path, env={"LOOPCORE_ODD": "\x1b[2Jcaf\xe9\udcff", "PYTHONIOENCODING": "ascii"})
    unknown = "loopcore: warning: LOOPCORE_ODD has no effect: loopcore has no such variable\n"
    assert (result.returncode, result.stderr) == (0, unknown)
    assert r"LOOPCORE_ODD=\x1b[2Jcaf\xe9" in result.stdout
    assert "\x1b" not in result.stdout


def test_an_error_is_one_line_whatever_it_is_about(tmp_path: Path):
    result = loopcore("run", "--plugin", "no\x1b[2J\nplugin", "x.py", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("loopcore: error: ")
    assert result.stderr.removesuffix("\n").isprintable()


def test_a_program_gets_standard_output_as_it_was(tmp_path: Path):
    (tmp_path / "x.py").write_text("import sys; print(sys.stdout.errors)", encoding="utf-8")
    assert loopcore("run", "x.py", cwd=tmp_path, env={"PYTHONIOENCODING": "utf-8"}).stdout == "strict\n"


def test_info_says_of_each_backend_where_it_comes_from_and_what_it_uses(tmp_path: Path):
    facts = json.loads(loopcore("info", "--json", cwd=tmp_path, env={}).stdout)
    backends = {each["backend"]: each for each in facts["backends"]}
    assert backends["proactor"]["details"] == {"over": "epoll"}
    assert backends["select"]["module"] == "loopcore_backends.select_:SelectBackend"
    assert {each["build"] for each in backends.values()} <= {"compiled", "pure"}
    assert backends["epoll"]["build"] == ("compiled" if facts["build"]["compiled"] else "pure")
    text = loopcore("info", "--all", cwd=tmp_path, env={}).stdout.splitlines()
    assert ["proactor", "over", "epoll"] in [line.split() for line in text]
    assert len(text) > 60


def test_info_fits_a_screen(tmp_path: Path):
    result = loopcore("info", cwd=tmp_path, env={"LOOPCORE_BACKEND": "poll"})
    lines = result.stdout.splitlines()
    assert result.stderr == ""
    assert len(lines) <= 23
    assert lines[-1] == "`loopcore info --all` adds the modules and the details of each backend"
    table = [line.split() for line in lines]
    assert ["backend", "available", "build", "reason"] in table
    assert [line[1] for line in table if line[:1] == ["select"]] == ["yes"]


@needs_uring
def test_info_says_of_uring_which_features_are_on_and_why_the_others_are_not(tmp_path: Path):
    env = {"LOOPCORE_URING_WITHOUT": "waitid,buffer_ring"}
    facts = json.loads(loopcore("info", "--json", cwd=tmp_path, env=env).stdout)
    (details,) = (each["details"] for each in facts["backends"] if each["backend"] == "uring")
    assert details["waitid"] == details["buffer_ring"] == "masked by LOOPCORE_URING_WITHOUT"
    assert details["incremental"] == "off: it needs buffer_ring"
    assert details["files"] == "on"


def test_info_says_what_is_wrong_with_the_setting_of_a_backend(tmp_path: Path):
    facts = json.loads(loopcore("info", "--json", cwd=tmp_path, env={"LOOPCORE_URING_WITHOUT": "pol"}).stdout)
    (found,) = (each for each in facts["backends"] if each["backend"] == "uring")
    assert "pol" in found["reason"]
    assert found["details"] == {}


def test_info_survives_a_wrong_backend(tmp_path: Path):
    result = loopcore("info", "--json", cwd=tmp_path, env={"LOOPCORE_BACKEND": "nope"})
    facts = json.loads(result.stdout)
    assert facts["backend"] is None
    assert "nope" in facts["why"]
    text = loopcore("info", cwd=tmp_path, env={"LOOPCORE_BACKEND": "nope"})
    assert text.returncode == 0
    assert text.stderr.startswith("loopcore: warning: LOOPCORE_BACKEND=nope: there is no backend 'nope'; installed: ")
