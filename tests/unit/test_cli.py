"""The command `loopcore`, mostly as a user runs it: in a process of its own."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from loopcore.cli import other_loops, output

REPORT = """\
import asyncio, sys
async def main():
    print(type(asyncio.get_running_loop()).__module__, sys.argv[1:])
"""
"""A program says on whose loop it runs, and with which arguments."""

ENTRANCES = {
    "asyncio.run": "asyncio.run(main())",
    "asyncio.Runner": "with asyncio.Runner() as runner: runner.run(main())",
    "asyncio.new_event_loop": "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close()",
    "loopcore.run": "import loopcore; loopcore.run(main())",
}


def loopcore(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loopcore", *arguments],
        check=False,
        cwd=cwd,
        env=os.environ | {"PYTHONWARNINGS": "error", "NO_COLOR": "1"} | dict(env or {}),
        capture_output=True,
        text=True,
        timeout=60,
    )


def path_with(folder: Path) -> str:
    """Return PYTHONPATH with `folder` before what it has."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def assert_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line on standard error, exit code 2, nothing on standard output."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("loopcore: error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


@pytest.fixture
def program(tmp_path: Path):
    def write(text: str, name: str = "program.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    return write


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_program_runs_unchanged_on_loopcore(program, tmp_path: Path, entrance: str):
    name = program(f"{REPORT}\n{ENTRANCES[entrance]}\n")
    result = loopcore("run", name, "--port", "80", "-m", "x", cwd=tmp_path)
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout == "loopcore.loop ['--port', '80', '-m', 'x']\n"


def test_file_is_main_as_under_python(program, tmp_path: Path):
    text = """\
import sys, neighbour
import __main__
print(__name__, __file__, sys.argv, sys.path[0], __main__.__dict__ is globals(), __spec__, __package__)
print(sorted(name for name in globals() if name.startswith("__")))
"""
    program("", "folder/neighbour.py")
    name = program(text, "folder/program.py")
    ours = loopcore("run", name, "a", cwd=tmp_path)
    python = subprocess.run([sys.executable, name, "a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = python.stdout.replace("'__annotations__', ", "")  # Python 3.11 to 3.13 make it, before it is needed
    assert ours.stderr == ""
    assert ours.stdout.replace("None None", "None") == expected.replace("None None", "None")


def test_module_is_main_as_under_python(program, tmp_path: Path):
    text = "import sys\nprint(__name__, __spec__.name, __package__, __file__, sys.argv, sys.path[0])\n"
    program("", "pack/__init__.py")
    program(text, "pack/mod.py")
    program(text, "pack/__main__.py")
    for words in (["pack.mod", "--json"], ["pack", "--json", "--", "a", "--", "-m"]):
        ours = loopcore("run", "-m", *words, cwd=tmp_path)
        python = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert (ours.stderr, ours.stdout) == ("", python.stdout)


def test_directory_and_zip_run_their_main(tmp_path: Path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys, part; print(part.NAME, sys.argv)\n")
    (tmp_path / "app" / "part.py").write_text("NAME = 'part'\n")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for path in (tmp_path / "app").iterdir():
            archive.write(path, path.name)
    for name in ("app", "app.zip"):
        result = loopcore("run", name, "x", cwd=tmp_path)
        assert (result.stderr, result.stdout) == ("", f"part ['{name}', 'x']\n")


def test_coroutine_function_is_called_with_strings(program, tmp_path: Path):
    program("import asyncio\nasync def main(a, b='-'): print(asyncio.get_running_loop().__module__, a, b)\n", "mod.py")
    result = loopcore("run", "mod:main", "1", cwd=tmp_path)
    assert (result.stderr, result.stdout, result.returncode) == ("", "loopcore.loop 1 -\n", 0)


def test_named_backend_serves_every_loop(program, tmp_path: Path):
    name = program(
        "import asyncio\nasync def main(): print(asyncio.get_running_loop().backend.name)\nasyncio.run(main())"
    )
    result = loopcore("run", "--backend", "select", name, cwd=tmp_path)
    assert (result.stderr, result.stdout) == ("", "select\n")


def test_debug_is_asyncios_debug_mode(program, tmp_path: Path):
    name = program(
        "import asyncio\nasync def main(): print(asyncio.get_running_loop().get_debug())\nasyncio.run(main())"
    )
    assert loopcore("run", "--debug", name, cwd=tmp_path).stdout == "True\n"
    assert loopcore("run", name, cwd=tmp_path, env={"PYTHONASYNCIODEBUG": ""}).stdout == "False\n"


@pytest.mark.parametrize(
    ("statement", "code", "said"), [("sys.exit(7)", 7, ""), ("sys.exit('no')", 1, "no\n"), ("sys.exit()", 0, "")]
)
def test_exit_code_passes_through(program, tmp_path: Path, statement: str, code: int, said: str):
    text = f"import asyncio, sys\nasync def main(): {statement}\nasyncio.run(main())\n"
    result = loopcore("run", program(text), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (code, said)


def test_exception_ends_with_one_and_a_traceback_of_the_program(program, tmp_path: Path):
    result = loopcore("run", program("def f():\n    raise KeyError('lost')\nf()\n"), cwd=tmp_path)
    assert result.returncode == 1
    assert "program.py" in result.stderr
    assert result.stderr.endswith("KeyError: 'lost'\n")
    assert "cli" not in result.stderr
    assert "runpy" not in result.stderr


def test_syntax_error_is_the_programs(program, tmp_path: Path):
    result = loopcore("run", program("x = = 1\n"), cwd=tmp_path)
    assert result.returncode == 1
    assert "SyntaxError" in result.stderr
    assert "cli" not in result.stderr


def test_interrupt_ends_as_under_python(program, tmp_path: Path):
    result = loopcore("run", program("import signal\nsignal.raise_signal(signal.SIGINT)\n"), cwd=tmp_path)
    assert result.returncode == -signal.SIGINT
    assert result.stderr.endswith("KeyboardInterrupt\n")


def test_main_outlives_its_last_line(program, tmp_path: Path):
    """atexit functions and threads still find the module's globals and its entry in sys.modules."""
    text = "import atexit, sys\nVALUE = 'here'\natexit.register(lambda: print(sys.modules['__main__'].VALUE, VALUE))\n"
    result = loopcore("run", program(text), cwd=tmp_path)
    assert (result.stdout, result.stderr) == ("here here\n", "")


def test_what_cannot_be_run_is_one_line(program, tmp_path: Path):
    program("x = 1\ndef plain(): pass\nasync def main(a): pass\n", "mod.py")
    program("", "pack/__init__.py")
    (tmp_path / "empty").mkdir()
    assert_refused(loopcore("run", cwd=tmp_path), "nothing to run")
    assert_refused(loopcore("run", "-m", cwd=tmp_path), "-m needs a MODULE")
    assert_refused(loopcore("run", "missing.py", cwd=tmp_path), "'missing.py'", "no such file; name a FILE")
    assert_refused(loopcore("run", "mod", cwd=tmp_path), "'mod'", "no such file; to run the file: loopcore run mod.py")
    assert_refused(loopcore("run", "mdo.py", cwd=tmp_path), "no such file (did you mean 'mod.py'?)")
    assert_refused(loopcore("run", "pack.x", cwd=tmp_path), "no such file; to run the module: loopcore run -m pack.x")
    assert_refused(loopcore("run", "no/mod.py", cwd=tmp_path), "no such file; there is no folder 'no'")
    assert_refused(
        loopcore("run", "-m", "mod.py", cwd=tmp_path), "no module named 'mod.py'; to run the file: loopcore run"
    )
    assert_refused(loopcore("run", "empty", cwd=tmp_path), "'empty'", "__main__")
    assert_refused(loopcore("run", "-m", "missing", cwd=tmp_path), "no module named 'missing'")
    assert_refused(loopcore("run", "-m", "mod.part", cwd=tmp_path), "no module named 'mod.part'")
    assert_refused(loopcore("run", "-m", "pack", cwd=tmp_path), "'pack'", "__main__")
    assert_refused(loopcore("run", "-m", "sys", cwd=tmp_path), "'sys'", "no Python code")
    assert_refused(loopcore("run", "missing:main", cwd=tmp_path), "no module named 'missing'")
    assert_refused(loopcore("run", "mod1:main", cwd=tmp_path), "no module named 'mod1' (did you mean 'mod'?)")
    assert_refused(loopcore("run", "-m", "pakc", cwd=tmp_path), "no module named 'pakc' (did you mean 'pack'?)")
    assert_refused(loopcore("run", "mod:missing", cwd=tmp_path), "'mod'", "'missing'")
    assert_refused(loopcore("run", "mod:mian", cwd=tmp_path), "module 'mod' has no 'mian' (did you mean 'main'?)")
    assert_refused(loopcore("run", "mod:__name__.main", cwd=tmp_path), "module 'mod' has no '__name__.main'")
    assert_refused(loopcore("run", "mod:plain", cwd=tmp_path), "mod:plain is not a coroutine function")
    assert_refused(loopcore("run", "mod:main", cwd=tmp_path), "mod:main(a)", "'a'")


@pytest.mark.parametrize("words", [["aa:main"], ["-m", "aa"], ["-m", "aa.part"]])
def test_a_module_in_a_folder_that_is_kept_off_the_path_is_not_suggested(program, tmp_path: Path, words: list[str]):
    program("async def main(): print('it runs')\n", "aa.py")
    environment = {"PYTHONSAFEPATH": "1"}
    result = loopcore("run", *words, cwd=tmp_path, env=environment)
    assert_refused(result, "; PYTHONSAFEPATH or -P keeps the current folder, where it is, off the path; PYTHONPATH=. ")
    assert "did you mean" not in result.stderr
    added = loopcore("run", "aa:main", cwd=tmp_path, env={**environment, "PYTHONPATH": path_with(tmp_path)})
    assert added.stdout == "it runs\n"


OTHER = """\
import asyncio, sys, loopcore
async def main(): pass
if len(sys.argv) > 1: loopcore.run(main())
with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner: runner.run(main())
"""
"""A program that chooses asyncio's own loop."""


WARNING = "loopcore: warning: the program runs on asyncio's "


def test_program_on_another_loop_is_reported(program, tmp_path: Path):
    result = loopcore("run", program(OTHER + "print('end')\n"), cwd=tmp_path)
    assert (result.stdout, result.returncode) == ("end\n", 0)
    assert re.fullmatch(
        WARNING + r"\w*SelectorEventLoop, not on loopcore; "
        r"where the program makes its loop, write loop_factory=.*; --allow-other-loops turns this warning off\n",
        result.stderr,
    )


def test_program_of_which_a_part_runs_on_another_loop_is_reported(program, tmp_path: Path):
    result = loopcore("run", program(OTHER), "both", cwd=tmp_path)
    assert result.stderr.startswith("loopcore: warning: part of the program runs on asyncio's ")


def test_another_loop_is_reported_once_and_when_it_first_runs(program, tmp_path: Path):
    again = OTHER.splitlines()[-1]
    result = loopcore("run", program(f"{OTHER}{again}\nraise KeyError('lost')\n"), cwd=tmp_path)
    assert result.returncode == 1
    warning, rest = result.stderr.split("\n", 1)
    assert warning.startswith(WARNING)
    assert rest.startswith("Traceback")
    assert "loopcore: warning" not in rest


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a signal that no program can handle")
def test_program_on_another_loop_that_a_signal_ends_is_reported(program, tmp_path: Path):
    result = loopcore("run", program(OTHER + "import os; os.kill(os.getpid(), 9)\n"), cwd=tmp_path)
    assert result.returncode == -9
    assert result.stderr.startswith(WARNING)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
def test_another_loop_of_a_forked_child_is_not_reported(program, tmp_path: Path):
    name = program("import os\nif os.fork(): raise SystemExit(os.wait()[1])\n" + OTHER)
    result = loopcore("run", name, cwd=tmp_path)
    assert (result.stderr, result.returncode) == ("", 0)


def test_options_that_another_loop_ignores_are_named(program, tmp_path: Path):
    name = program(OTHER)
    result = loopcore("run", "--plugin", "watchdog:threshold=1", name, cwd=tmp_path)
    assert "; --plugin watchdog:threshold=1 has no effect there; " in result.stderr
    result = loopcore("--backend", "select", "run", "--plugin", "trace", "--plugin", "watchdog", name, cwd=tmp_path)
    assert "; --backend select and --plugin trace and --plugin watchdog have no effect there; " in result.stderr


def test_program_may_run_on_another_loop_if_it_is_allowed(program, tmp_path: Path):
    name = program(OTHER)
    for options, value in (["--allow-other-loops"], ""), ([], "yes"), (["--allow-other-loops"], "no"):
        result = loopcore("run", *options, name, cwd=tmp_path, env={"LOOPCORE_ALLOW_OTHER_LOOPS": value})
        assert (result.stderr, result.returncode) == ("", 0)
    env = {"LOOPCORE_ALLOW_OTHER_LOOPS": "no"}
    assert "not on loopcore" in loopcore("run", name, cwd=tmp_path, env=env).stderr
    env = {"LOOPCORE_ALLOW_OTHER_LOOPS": "maybe"}
    refused = loopcore("run", name, cwd=tmp_path, env=env)
    assert_refused(refused, "LOOPCORE_ALLOW_OTHER_LOOPS='maybe' must be yes or no")


def test_advice_names_what_makes_the_other_loop(monkeypatch: pytest.MonkeyPatch):
    loop = type("Loop", (), {"__module__": "fastloop.loop"})
    monkeypatch.delitem(sys.modules, "uvicorn", raising=False)
    assert "loop_factory=loopcore.new_event_loop" in other_loops.advice_for(loop)
    monkeypatch.setitem(sys.modules, "fastloop", SimpleNamespace(install=None))  # as uvloop has it
    assert other_loops.advice_for(loop) == "write asyncio.run in place of fastloop.run, and remove fastloop.install()"
    monkeypatch.setitem(sys.modules, "uvicorn", SimpleNamespace())
    assert "uvicorn with --loop loopcore:new_event_loop" in other_loops.advice_for(loop)


APPLICATION = """\
import asyncio
async def app(scope, receive, send):
    print(type(asyncio.get_running_loop()).__module__, flush=True)
    await send({"type": "lifespan.startup.failed"})
"""
"""An ASGI application that says on which loop it runs, and does not start."""


@pytest.mark.parametrize(
    ("options", "variable", "module"),
    [([], "", "loopcore"), (["--loop", "asyncio"], "", "asyncio"), ([], "asyncio", "asyncio")],
)
def test_uvicorn_runs_on_loopcore_unless_it_is_given_another_loop(
    program, tmp_path: Path, options: list[str], variable: str, module: str
):
    pytest.importorskip("uvicorn", minversion="0.36")
    program(APPLICATION, "application.py")
    env = {"PYTHONWARNINGS": ""} | ({"UVICORN_LOOP": variable} if variable else {})
    result = loopcore("run", "-m", "uvicorn", *options, "--port", "0", "application:app", cwd=tmp_path, env=env)
    assert result.stdout.split(".")[0] == module
    assert ("start uvicorn with --loop loopcore:new_event_loop" in result.stderr) is (module != "loopcore")


def test_uvicorn_of_a_program_that_chooses_its_loop_is_reported(program, tmp_path: Path):
    pytest.importorskip("uvicorn", minversion="0.36")
    program(APPLICATION, "application.py")
    name = program("import uvicorn\nuvicorn.run('application:app', port=0, loop='asyncio')\n")
    result = loopcore("run", name, cwd=tmp_path, env={"PYTHONWARNINGS": ""})
    assert result.stdout.startswith("asyncio")
    assert "uvicorn.run(..., loop='loopcore:new_event_loop')" in result.stderr


def test_missing_import_of_the_program_is_its_own_error(program, tmp_path: Path):
    program("import not_installed\nasync def main(): pass\n", "mod.py")
    program("import not_installed\n", "pack/__init__.py")
    program("", "pack/mod.py")
    for arguments in (["mod:main"], ["-m", "mod"], ["-m", "pack.mod"]):
        result = loopcore("run", *arguments, cwd=tmp_path)
        assert result.returncode == 1
        assert result.stderr.endswith("No module named 'not_installed'\n")
        assert "Traceback" in result.stderr
        assert "cli" not in result.stderr


def test_unknown_backend_is_refused_before_the_program_starts(program, tmp_path: Path):
    name = program("print('started')")
    asked = ": there is no backend 'epol' (did you mean 'epoll'?)"
    assert_refused(loopcore("run", "--backend", "epol", name, cwd=tmp_path), f"error: --backend epol{asked}")
    variable = {"LOOPCORE_BACKEND": "epol"}
    assert_refused(loopcore("run", name, cwd=tmp_path, env=variable), f"error: LOOPCORE_BACKEND=epol{asked}")


def test_unknown_plugin_is_refused_before_the_program_starts(program, tmp_path: Path):
    name = program("print('started')")
    assert_refused(
        loopcore("run", "--plugin", "nope", name, cwd=tmp_path), "error: --plugin nope: there is no plugin 'nope'"
    )
    assert_refused(loopcore("run", "--plugin", "port=1", name, cwd=tmp_path), "'port=1' is an option, but of which")
    variable = {"LOOPCORE_PLUGINS": "nope:a=b"}
    assert_refused(loopcore("run", name, cwd=tmp_path, env=variable), "error: LOOPCORE_PLUGINS=nope:a=b: there is no")


@pytest.mark.parametrize("option", ["--backend", "--plugin"])
@pytest.mark.parametrize("value", ["", " ", ", ,"])
def test_option_without_a_name_is_refused_and_shown_in_quotes(program, tmp_path: Path, option: str, value: str):
    name = program("print('started')")
    assert_refused(loopcore("run", option, value, name, cwd=tmp_path), f"error: {option} {value!r} names no ")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("metrics:", "--plugin metrics: '' names no option; write metrics:OPTION=VALUE, or metrics alone"),
        ("metrics:port", "--plugin metrics: option 'port' has no value; write metrics:port=VALUE, or metrics alone"),
        ("metrics:prot=1", "--plugin metrics has no option 'prot' (did you mean 'port'?); it accepts port=int"),
        ("metrics:port=abc", "--plugin metrics: option 'port' takes int, not 'abc'"),
        ("metrics:port=99999", "--plugin metrics: port=99999 is out of range: 0 to 65535"),
    ],
)
def test_wrong_option_of_a_plugin_is_refused(program, tmp_path: Path, asked: str, message: str):
    assert_refused(loopcore("run", "--plugin", asked, program("print(1)"), cwd=tmp_path), f"loopcore: error: {message}")


def test_plugins_that_conflict_are_refused_before_the_program_starts(program, tmp_path: Path):
    name = program("print('started')")
    message = "error: plugins 'priority' and 'fair' both decide loopcore_make_ready_queue; leave one of them out"
    assert_refused(loopcore("run", "--plugin", "priority", "--plugin", "fair", name, cwd=tmp_path), message)
    variable = {"LOOPCORE_PLUGINS": "priority,fair"}
    assert_refused(loopcore("run", name, cwd=tmp_path, env=variable), message)


def test_plugin_without_what_it_needs_says_what_to_install(program, tmp_path: Path):
    program("raise ImportError", "opentelemetry/__init__.py")
    env = {"PYTHONPATH": path_with(tmp_path)}
    result = loopcore("run", "--plugin", "spans", program("print('started')"), cwd=tmp_path, env=env)
    message = """--plugin spans needs OpenTelemetry's API: pip install "loopcore[otel]"\n"""
    assert_refused(result, f"loopcore: error: {message}")


def test_backends_of_other_systems_give_their_reasons_in_one_line(program, tmp_path: Path):
    name = program("print('started')")
    other = "epoll" if sys.platform == "win32" else "iocp"
    assert_refused(
        loopcore("run", "--backend", other, name, cwd=tmp_path), f"error: --backend {other} cannot run here: "
    )
    result = loopcore("run", "--backend", f"{other},{other}", name, cwd=tmp_path)
    assert_refused(result, f"error: --backend {other},{other}")


def test_plugin_that_cannot_be_made_is_refused_before_the_program_starts(program, tmp_path: Path):
    name = program("print('started')")
    asked = "metrics:port=99999"
    for result in (
        loopcore("run", "--plugin", asked, name, cwd=tmp_path),
        loopcore("run", name, cwd=tmp_path, env={"LOOPCORE_PLUGINS": asked}),
    ):
        assert_refused(result, "metrics", "port=99999")


COUNTED = """\
from loopcore.hooks.specs import hookimpl
class Counted:
    made = 0
    def __init__(self, step: int): Counted.made += step
    @hookimpl
    def loopcore_loop_closed(self, loop): pass
"""


def test_plugins_made_before_the_program_are_those_of_its_first_loop(program, tmp_path: Path):
    program(COUNTED, "counted.py")
    program("Metadata-Version: 2.1\nName: counted\nVersion: 1\n", "counted-1.dist-info/METADATA")
    program("[loopcore.plugins]\ncounted = counted:Counted\n", "counted-1.dist-info/entry_points.txt")
    text = """\
import loopcore, counted
print(counted.Counted.made)
for _ in range(2):
    loopcore.new_event_loop().close()
    print(counted.Counted.made)
"""
    env = {"PYTHONPATH": path_with(tmp_path)}
    result = loopcore("run", "--plugin", "counted:step=1", program(text), cwd=tmp_path, env=env)
    assert (result.stderr, result.stdout.split()) == ("", ["1", "1", "2"])


def test_setting_that_a_backend_does_not_know_is_refused_before_the_program_starts(program, tmp_path: Path):
    env = {"LOOPCORE_BACKEND": "uring,poll", "LOOPCORE_URING_WITHOUT": "nonsense"}
    refused = loopcore("run", program("print('started')"), cwd=tmp_path, env=env)
    assert_refused(refused, "LOOPCORE_URING_WITHOUT", "nonsense")


def test_variable_that_does_not_exist_is_reported_before_the_program_starts(program, tmp_path: Path):
    name = program("import sys; print('started', file=sys.stderr)")
    env = {"LOOPCORE_POLL_SKIP_TICK": "0", "LOOPCORE_TEST_ANYTHING": "1", "LOOPCORE_QQQ": ""}
    result = loopcore("run", name, cwd=tmp_path, env=env)
    assert result.returncode == 0
    assert result.stderr == (
        "loopcore: warning: LOOPCORE_POLL_SKIP_TICK has no effect: loopcore has no such variable "
        "(did you mean 'LOOPCORE_POLL_SKIP_TICKS'?)\n"
        "loopcore: warning: LOOPCORE_QQQ has no effect: loopcore has no such variable\n"
        "started\n"
    )


def test_unknown_class_of_tasks_is_refused_before_the_program_starts(program, tmp_path: Path):
    result = loopcore("run", program("print('started')"), cwd=tmp_path, env={"LOOPCORE_TASKS": "asynci"})
    assert_refused(result, "error: LOOPCORE_TASKS='asynci' must be asyncio; unset it")
    result = loopcore("run", program("print('started')"), cwd=tmp_path, env={"LOOPCORE_THREADS": "many"})
    assert_refused(result, "error: LOOPCORE_THREADS='many' must be a whole number from 1 to 1024; unset it")


@pytest.mark.parametrize(
    "arguments", [["info"], ["info", "--json"], ["backends"], ["plugins"], ["--help"], ["--version"]]
)
def test_report_that_nobody_reads_ends_quietly(tmp_path: Path, arguments: list[str]):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        command = [sys.executable, "-m", "loopcore", *arguments]
        result = subprocess.run(
            command,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": ""},  # argparse swallows errors of a write, but not of a flush
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (result.stderr, result.returncode) == ("", 141)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["info"], ["backends", "--json"], ["plugins"]])
def test_report_that_a_full_disk_refuses_is_one_line_of_error(tmp_path: Path, arguments: list[str], unbuffered: str):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "loopcore", *arguments],
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    expected = f"loopcore: error: cannot write to standard output: {os.strerror(errno.ENOSPC)}\n"
    assert (result.stderr, result.returncode) == (expected, 2)


def test_error_that_is_not_of_the_output_is_not_called_one():
    with pytest.raises(OSError, match="mine"), output.report():
        raise OSError(errno.EIO, "mine")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize(("unbuffered", "code"), [("1", 2), ("", 120)])
def test_error_that_a_full_disk_refuses_has_the_exit_code_that_python_gives(unbuffered: str, code: int):
    """Python ends with 120 where it cannot flush a standard stream."""
    with open("/dev/full", "wb") as full:
        env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        command = [sys.executable, "-m", "loopcore", "infos"]
        result = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=full, env=env, timeout=60)
    assert (result.stdout, result.returncode) == (b"", code)


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the descriptor")
def test_error_without_a_standard_error_is_not_on_standard_output():
    command = ["/bin/sh", "-c", 'exec "$0" -m loopcore infos 2>&-', sys.executable]
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE, timeout=60)
    assert (result.stdout, result.returncode) == (b"", 2)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_is_one_line(tmp_path: Path, option: str):
    result = loopcore(option, cwd=tmp_path)
    assert (result.stdout, result.stderr, result.returncode) == (f"loopcore {version('loopcore')}\n", "", 0)


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_help_shows_the_commands_in_groups_and_examples(tmp_path: Path, arguments: list[str]):
    result = loopcore(*arguments, cwd=tmp_path)
    assert (result.stderr, result.returncode) == ("", 0)
    assert "\nRun a program:\n  run " in result.stdout
    assert "\nLook at a running program:\n  cancel " in result.stdout
    assert "\nexamples:\n  loopcore run " in result.stdout
    assert "Commands of other packages" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_of_a_command_is_asked_for_before_or_after_it(tmp_path: Path):
    before = [loopcore(*words, cwd=tmp_path).stdout for words in (["help", "info"], ["--help", "info"])]
    assert before == [loopcore("info", "--help", cwd=tmp_path).stdout] * 2
    assert before[0].startswith("usage: loopcore info ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--bakend", "x", "a.py"], "run: there is no option '--bakend' (did you mean '--backend'?); see"),
        (["-v", "run", "a.py"], "there is no option '-v' (did you mean '-V'?); see loopcore --help"),
        (["new", "backnd", "x"], "new: 'backnd' is not one of backend, plugin (did you mean 'backend'?); see"),
        (["run", "--backend"], "run: --backend needs a value; see loopcore run --help"),
        (["ruN"], "there is no command 'ruN' (did you mean 'run'?); see loopcore --help"),
        (["help", "inf"], "there is no command 'inf' (did you mean 'info'?); see loopcore --help"),
        (["a.py"], "there is no command 'a.py'; to run it as a program: loopcore run a.py"),
        (["--debug"], "needs a command, as in: loopcore --debug run FILE; see loopcore --help"),
        (["--backend", "poll"], "needs a command, as in: loopcore --backend poll run FILE; see loopcore --help"),
        (["--debug", "-m", "a", "b c"], "'-m' is an option of run: loopcore run --debug -m a 'b c'; see"),
        (["run", "--debug=1"], "run: --debug takes no value; see loopcore run --help"),
        (["new"], "new needs backend|plugin, NAME; see loopcore new --help"),
        (["backends", "epol"], "there is no backend 'epol' (did you mean 'epoll'?)"),
        (
            ["run", "--plugin", "metrics:port=1", "--plugin", "metrics:port=2", "a.py"],
            "--plugin metrics is named twice, with different options; name it once",
        ),
        (["run", "--plugin", "mod:Class", "a.py"], "--plugin takes the name of an installed plugin (see"),
        (["run", "--plugin", "./a.py", "a.py"], "--plugin takes the name of an installed plugin (see"),
        (["run", "--plugin", "trace:file", "a.py"], "--plugin trace: option 'file' has no value; write"),
        (["cancel", "1"], "cancel needs TASK; see loopcore cancel --help"),
        (
            ["serve", "--plugin", "watchdog", "app:app"],
            "serve: there is no option '--plugin'; it comes before the command: loopcore --plugin watchdog serve",
        ),
        (
            ["info", "--backend=a b"],
            "info: there is no option '--backend'; it comes before the command: loopcore '--backend=a b' info; see",
        ),
        (
            ["info", "--json", "--debug"],
            "info: there is no option '--debug'; it comes before the command: loopcore --debug info --json; see",
        ),
        (["run", "--version", "a.py"], "run: there is no option '--version'; see"),
        (["info", "--backend"], "info: there is no option '--backend'; see"),
        (["backends", "--jsn"], "backends: there is no option '--jsn' (did you mean '--json'?); see"),
        (["--backend", "epol", "info"], "--backend epol: there is no backend 'epol' (did you mean 'epoll'?)"),
    ],
)
def test_wrong_command_line_is_one_line_that_says_what_to_type(tmp_path: Path, arguments: list[str], message: str):
    (tmp_path / "a.py").write_text("")
    assert_refused(loopcore(*arguments, cwd=tmp_path), f"loopcore: error: {message}")


@pytest.mark.parametrize("way", [["program.py"], ["-m", "program"]])
@pytest.mark.parametrize("option", ["--plugin=watchdog:threshold=1", "--backend=select", "--allow-other-loops"])
def test_option_of_run_after_the_program_gives_a_hint(program, tmp_path: Path, way: list[str], option: str):
    program("import sys; print(sys.argv[1:])")
    split = option.split("=", 1)
    typed = " ".join(split)
    for words in [option], split:
        result = loopcore("run", *way, "x", *words, cwd=tmp_path)
        assert result.stdout == f"{['x', *words]}\n"
        assert result.stderr == (
            f"loopcore: warning: {typed} is after the program, so the program gets it and not loopcore; "
            f"if loopcore was meant: loopcore run {typed} {' '.join(way)}\n"
        )


def test_options_that_programs_share_with_run_give_no_hint(program, tmp_path: Path):
    words = ["--debug", "--backend", "nccl", "--plugin", "mine", "--backend"]
    assert loopcore("run", program(""), *words, cwd=tmp_path).stderr == ""


def test_facts_about_one_backend(tmp_path: Path):
    shown = loopcore("backends", "select", cwd=tmp_path)
    assert shown.returncode == 0
    assert re.search(r"^name +select\n", shown.stdout)
    assert re.search(r"^target +loopcore_backends\.select_\S*:\w+$", shown.stdout, re.MULTILINE)
    facts = json.loads(loopcore("backends", "select", "--json", cwd=tmp_path).stdout)
    assert facts["name"] == "select"
    assert facts["available"] is True
    assert isinstance(facts["details"], dict)


def test_new_distribution_goes_into_a_folder_that_exists(tmp_path: Path):
    refused = loopcore("new", "plugin", "census", "--into", "absent", cwd=tmp_path)
    assert_refused(refused, "there is no folder 'absent'; make it first: mkdir -p absent")
    assert not (tmp_path / "absent").exists()
    created = loopcore("new", "plugin", "census", cwd=tmp_path)
    assert created.stdout.startswith("Created loopcore-plugin-census. Next:\n")
    assert (tmp_path / "loopcore-plugin-census").is_dir()


def test_option_that_was_meant_is_found_in_a_coloured_usage(tmp_path: Path):
    result = loopcore("backends", "--jsn", cwd=tmp_path, env={"PYTHON_COLORS": "1"})
    assert_refused(result, "(did you mean '--json'?)")


def test_options_before_the_command_are_those_of_run(program, tmp_path: Path):
    name = program(
        "import asyncio\nasync def main(): loop = asyncio.get_running_loop(); "
        "print(loop.backend.name, loop.get_debug(), sorted(name for name, _ in loop.probes.plugins()))\n"
        "asyncio.run(main())"
    )
    words = ["--backend", "poll", "--plugin", "keep", "--debug", "run", "--plugin", "strict", "--backend", "select"]
    result = loopcore(*words, name, cwd=tmp_path)
    assert (result.stderr, result.stdout) == ("", "select True ['keep', 'strict']\n")


def test_backends_are_listed_with_the_chosen_one(tmp_path: Path):
    result = loopcore("backends", "--json", cwd=tmp_path, env={"LOOPCORE_BACKEND": "select"})
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert {"select", "poll", "epoll"} <= rows.keys()
    assert [name for name, row in rows.items() if row["chosen"]] == ["select"]
    assert rows["select"]["available"]
    assert rows["select"]["distribution"].startswith("loopcore")
    table = loopcore("backends", cwd=tmp_path).stdout.splitlines()
    assert table[0].split() == ["name", "available", "chosen", "distribution", "reason"]
    assert len(table) == 1 + len(rows)


def test_backends_are_listed_even_if_the_variable_is_wrong(tmp_path: Path):
    result = loopcore("backends", "--json", cwd=tmp_path, env={"LOOPCORE_BACKEND": "nope"})
    assert result.returncode == 0
    assert not any(row["chosen"] for row in json.loads(result.stdout))


def test_plugins_are_listed(tmp_path: Path):
    assert isinstance(json.loads(loopcore("plugins", "--json", cwd=tmp_path).stdout), list)
    assert loopcore("plugins", cwd=tmp_path).returncode == 0


def test_options_of_a_plugin_are_listed(tmp_path: Path):
    lines = [line.split() for line in loopcore("plugins", "watchdog", cwd=tmp_path).stdout.splitlines()]
    assert ["option", "type", "default"] in lines
    assert ["max_reports", "int"] in [line[:2] for line in lines]
    assert ["loopcore", "run", "--plugin", "watchdog:threshold=VALUE", "FILE"] in lines
    facts = json.loads(loopcore("plugins", "trace", "--json", cwd=tmp_path).stdout)
    assert facts["target"] == "loopcore_plugins.trace:Trace"
    assert {"option": "limit", "type": "int", "default": "200000"} in facts["options"]
    assert "it has no options" in loopcore("plugins", "keep", cwd=tmp_path).stdout
    assert_refused(loopcore("plugins", "kep", cwd=tmp_path), "there is no plugin 'kep' (did you mean 'keep'?)")


def test_columns_are_aligned_and_nothing_is_a_dash(capsys: pytest.CaptureFixture[str]):
    rows = [{"name": "a", "ok": True, "why": ""}, {"name": "long", "ok": False, "why": "no reason"}]
    output.show_table(("name", "ok", "why"), rows, empty="none")
    output.show_table(("name",), [], empty="none")
    expected = ["name  ok   why", "a     yes  -", "long  no   no reason", "none"]
    assert capsys.readouterr().out.splitlines() == expected


def test_rich_draws_the_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.show_table(("name", "ok"), [{"name": "epoll", "ok": True}], empty="none")
    shown = capsys.readouterr().out
    assert "epoll" in shown
    assert "\x1b[" in shown


def test_without_rich_the_table_is_plain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    output.show_table(("name", "ok"), [{"name": "epoll", "ok": True}], empty="none")
    assert capsys.readouterr().out == "name   ok\nepoll  yes\n"
