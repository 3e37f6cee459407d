"""What the build hook decides by the interpreter it runs on."""

import importlib.util
import os
import platform
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("hatchling")


@pytest.fixture
def hook() -> ModuleType:
    path = Path(__file__).parents[2] / "core" / "build_ext.py"
    spec = importlib.util.spec_from_file_location("build_ext_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pypy_gets_the_pure_build_and_the_reason(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook.unsuited_interpreter() == ""
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    monkeypatch.setattr(platform, "python_implementation", lambda: "PyPy")
    assert hook.unsuited_interpreter().startswith("PyPy runs the pure build")


def test_a_compiler_behind_a_cache_is_noted_by_its_own_name(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.write_text('#!/bin/sh\ncase $1 in --version) echo a cache;; *) exec "$@";; esac\n')
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\necho "the compiler, asked for $*"\n')
    for path in (cache, compiler):
        path.chmod(0o755)
    monkeypatch.setenv("CC", f"{cache} {compiler} -pthread")
    assert hook.compiler_name() == "the compiler, asked for -pthread --version"


@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_variable_counts_as_unset(hook: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOOPCORE_COMPILE", value)
    assert hook.compile_mode() == "auto"


def test_flags_for_a_sanitizer_are_left_as_they_are(hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CFLAGS", "-g -O1 -fsanitize=address")
    assert hook.compiler_flags(tmp_path, "loopcore/kernel/task.py") == []
    monkeypatch.delenv("CFLAGS")
    assert hook.compiler_flags(tmp_path, "loopcore/kernel/task.py") != []


@pytest.mark.skipif(sys.platform == "win32", reason="the compiler is told in other words")
def test_cflags_may_say_how_far_to_optimise(hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CFLAGS", raising=False)
    assert "-O3" in hook.compiler_flags(tmp_path, "loopcore/kernel/task.py")
    assert "-O1" in hook.compiler_flags(tmp_path, "loopcore/sync/ring.py")
    monkeypatch.setenv("CFLAGS", "-O2")
    assert not {"-O1", "-O3"} & set(hook.compiler_flags(tmp_path, "loopcore/kernel/task.py"))


@pytest.mark.skipif(sys.platform == "win32", reason="the compiler is told in other words")
@pytest.mark.parametrize("flag", ["-g", "-g3", "-ggdb"])
def test_cflags_may_ask_for_debug_information(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: str
) -> None:
    monkeypatch.setenv("CFLAGS", "-O2")
    assert "-g0" in hook.compiler_flags(tmp_path, "loopcore/kernel/task.py")
    monkeypatch.setenv("CFLAGS", f"-O2 {flag}")
    assert "-g0" not in hook.compiler_flags(tmp_path, "loopcore/kernel/task.py")


def test_every_hot_module_exists(hook: Any) -> None:
    modules = [module.as_posix() for module in hook.hot_modules(Path(hook.__file__).parents[1])]
    assert [prefix for prefix in hook.HOT if not any(module.startswith(prefix) for module in modules)] == []


NO_SEMAPHORES = """
import _multiprocessing

class SemLock(_multiprocessing.SemLock):
    def __new__(cls, *arguments):
        raise OSError(30, "Read-only file system")

_multiprocessing.SemLock = SemLock
"""


@pytest.mark.parametrize("start", ["", NO_SEMAPHORES], ids=["processes", "no semaphores"])
def test_the_build_names_each_module_as_it_is_finished(
    hook: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str
) -> None:
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(start, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "start")
    package = tmp_path / "in" / "loopcore" / "kernel"
    package.mkdir(parents=True)
    for name in ("one", "two"):
        (package / f"{name}.py").write_text("def answer():\n    return 42\n", encoding="utf-8")
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    monkeypatch.setenv("CFLAGS", "-O0")
    modules = [Path("loopcore", "kernel", f"{name}.py") for name in ("one", "two")]
    hook.run_compiler(tmp_path / "in", tmp_path / "out", modules)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[1/3]", "[2/3]", "[3/3]"]
    assert {line.split()[1] for line in lines} == {"cyutility", "kernel.one", "kernel.two"}
    built = {path.name.partition(".")[0] for path in (tmp_path / "out").rglob("*.*") if path.suffix in (".so", ".pyd")}
    assert built == {"_cyutility", "one", "two"}


def test_the_build_uses_the_processors_that_it_may_use(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    assert hook.processors() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert hook.processors() == 64


def test_the_notes_of_a_pure_build_do_not_name_the_python(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = []
    for version in ("3.11.1", "3.14.0"):
        monkeypatch.setattr(platform, "python_version", lambda version=version: version)
        told.append(hook.CompileHook._info(tmp_path, "no", "LOOPCORE_COMPILE=no", []))
    assert told[0] == told[1]


def test_what_is_kept_of_a_build_does_not_depend_on_how_the_checkout_was_installed(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builds = []

    def run_compiler(tree: Path, out: Path, modules: list[Path]) -> None:
        out.mkdir()
        builds.append(tree)

    monkeypatch.setattr(hook, "run_compiler", run_compiler)
    monkeypatch.setenv("LOOPCORE_BUILD_CACHE", str(tmp_path / "kept"))
    source = tmp_path / "source" / "core" / "loopcore" / "task.py"
    source.parent.mkdir(parents=True)
    record = tmp_path / "source" / "core" / hook.INFO
    for name, changed in (("new", source), ("same", record), ("edited", source)):
        changed.write_text(name, encoding="utf-8")
        hook.compile_modules(tmp_path / "source", [Path("loopcore", "task.py")], tmp_path / name)
    assert builds == [tmp_path / name / "in" for name in ("new", "edited")]


def test_what_is_translated_for_one_python_is_compiled_for_another(
    hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    translations = []

    def run_compiler(tree: Path, out: Path, modules: list[Path]) -> None:
        translated, source = tree / "loopcore" / "task.c", tree / "loopcore" / "task.py"
        if not translated.exists() or translated.stat().st_mtime < source.stat().st_mtime:
            translations.append(source.read_text(encoding="utf-8"))
            translated.touch()
        out.mkdir()
        (out / "task.so").write_text(sys.version, encoding="utf-8")

    monkeypatch.setattr(hook, "run_compiler", run_compiler)
    monkeypatch.setenv("LOOPCORE_BUILD_CACHE", str(tmp_path / "kept"))
    source = tmp_path / "source" / "core" / "loopcore" / "task.py"
    source.parent.mkdir(parents=True)
    for place, text, version in (("1", "first", "3.11"), ("2", "first", "3.14"), ("3", "edited", "3.14")):
        source.write_text(text, encoding="utf-8")  # newer than any translation that is kept
        monkeypatch.setattr(sys, "version", version)
        (built,) = hook.compile_modules(tmp_path / "source", [Path("loopcore", "task.py")], tmp_path / place)
        assert (tmp_path / place / "out" / built).read_text(encoding="utf-8") == version
    assert translations == ["first", "edited"]


def test_a_failed_build_gives_the_reason_in_one_line(
    hook: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "in" / "loopcore"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "wrong.py").write_text("def answer(:\n", encoding="utf-8")
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    monkeypatch.setenv("CFLAGS", "-O0")
    with pytest.raises(hook.CompileError, match=r"^loopcore/wrong\.py:1:11: "):
        hook.run_compiler(tmp_path / "in", tmp_path / "out", [Path("loopcore", "wrong.py")])
    assert "Traceback" not in capfd.readouterr().err


def test_a_caught_exception_may_have_no_traceback(hook: Any) -> None:
    """Issue 32: where memory ran out when the traceback was to be made, the process ended."""
    translated = """
static int f(void) {
  __Pyx_DECREF(__pyx_t_3); __pyx_t_3 = 0;
}
static int g(void) {
  if (__Pyx_GetException(&__pyx_t_1, &__pyx_t_2, &__pyx_t_3) < 0) return -1;
  PyObject* __pyx_temp[3] = {__pyx_t_1, __pyx_t_2, __pyx_t_3};
  __Pyx_DECREF(__pyx_t_2); __pyx_t_2 = 0;
  __Pyx_DECREF(__pyx_t_3); __pyx_t_3 = 0;
}
"""
    caught = hook.allow_no_traceback(translated)
    assert caught.splitlines()[2] == "  __Pyx_DECREF(__pyx_t_3); __pyx_t_3 = 0;"
    assert caught.splitlines()[6:9] == [
        "  PyObject* __pyx_temp[3] = {__pyx_t_1, __pyx_t_2, __pyx_t_3 ? __pyx_t_3 : Py_None};",
        "  __Pyx_DECREF(__pyx_t_2); __pyx_t_2 = 0;",
        "  __Pyx_XDECREF(__pyx_t_3); __pyx_t_3 = 0;",
    ]
    assert hook.allow_no_traceback(caught) == caught


def test_an_item_that_a_comprehension_cannot_take_is_given_up_once(hook: Any, tmp_path: Path) -> None:
    """Issue 32: the item was given up twice, and the next tuple was made of memory that was in use."""
    compiler = pytest.importorskip("Cython.Build")
    source = tmp_path / "comprehension.py"
    source.write_text("def doubled(numbers):\n    return [number + number for number in numbers]\n", encoding="utf-8")
    compiler.cythonize([str(source)], quiet=True, language_level=3)
    translated = source.with_suffix(".c").read_text(encoding="utf-8")
    if "ListComp_AppendAndDecref" in translated:  # Cython 3.3 has the defect, and it must be fixed
        assert hook.free_once(translated).count("if (result == 0) Py_DECREF(x);") == 2
