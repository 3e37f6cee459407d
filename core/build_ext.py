"""Compile the hot modules while a wheel is built: each `.py` that has a `.pxd` of the same name becomes an extension.

hatchling calls `CompileHook` for wheels and editable installs; the sdist carries sources only.

`LOOPCORE_COMPILE` decides:

- `auto` (default): compile; if that is not possible (no compiler, no Cython, an error), build a pure wheel,
  tagged py3-none-any. The reason is printed and kept in the wheel, where `loopcore info` finds it.
- `require`: compile or fail, with the reason.
- `no`: do not compile.

An editable install compiles only under `require`, because an extension next to its source hides every
later edit of that source. Its extensions are in the source tree (git ignores them); the next editable
install without `require` removes them. A wheel leaves nothing behind: the roots are copied to a
temporary directory and compiled there, by a child process, so that Cython sees relative paths (which
tracebacks show) and setuptools' patches of distutils stay out of hatchling.

PyPy gets the pure build under `auto`, with a message: it runs extensions through an emulation of CPython's C API and so
gains nothing. `require` fails there.

All modules are compiled or none is: a compiled module calls the others at the C level. What Cython adds to every module
is compiled once, as `loopcore._cyutility`. Each finished module prints a line, `[12/93] kernel.task`; pip shows it
under `-v`.

`LOOPCORE_BUILD_CACHE` names a folder that keeps compiled modules for the next build from the same sources with the same
Python, Cython, compiler and flags, and Cython's translations for builds with another Python. CI sets it, because it
installs loopcore many times.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE: Final = "LOOPCORE_COMPILE"
CACHE: Final = "LOOPCORE_BUILD_CACHE"
MODES: Final = ("auto", "no", "require")
ROOTS: Final = {"core": "loopcore", "backends": "loopcore_backends", "plugins": "loopcore_plugins"}
INFO: Final = Path("loopcore", "_build_info.json")

DIRECTIVES: Final = {
    "language_level": 3,
    # Only the .pxd declares C types; annotations are for mypy. Taken as C types, `float` would become a double,
    # `str` would refuse subclasses, and `BaseException` would not match the `object` of a .pxd.
    "annotation_typing": False,
    # Plain C methods instead of objects that imitate Python functions: 6 % of a call_soon. Their signatures
    # are kept where `inspect` looks for those of C functions.
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    # An unexpected None or an index out of range raises an exception instead of crashing the process: programs can
    # reach the kernel's objects, even before `__init__` has run, and may change their attributes.
    "nonecheck": True,
    "boundscheck": True,
    # Hot modules never index from the end (tests/architecture looks for negative literals).
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    # Exceptions raised by `__del__` go to sys.unraisablehook, as in the pure build; by default Cython passes them
    # to sys.excepthook first, as if they were uncaught.
    "unraisable_tracebacks": False,
    # Futures and transports are not values to be pickled; the methods that Cython adds for it do not check their input.
    "auto_pickle": False,
    # A loop's objects belong to its thread, and the few numbers that others read are atomic (_native/threads.h).
    "freethreading_compatible": True,
}
COMPLAINT: Final = re.compile(r"[^ :]+:\d+(:\d+)?: ")
"""The start of a message: `loopcore/x.py:3:4: ...` from Cython, `loopcore/x.c:3:4: error: ...` from a C compiler."""
NOT_CPYTHON: Final = "runs the pure build, which its own compiler speeds up; extensions are for CPython"
SELDOM: Final = """\
static void __Pyx_AddTraceback(const char *, int, int, const char *) __attribute__((cold));
struct _object; void _Py_Dealloc(struct _object *) __attribute__((cold));
#ifndef __clang__
#define CYTHON_SMALL_CODE __attribute__((cold, optimize("O1")))
#endif
"""
"""Declares as cold the functions called on each way out of an error and for each last reference.

Functions that Cython marks as small code run once, when a module is imported; with -O3 they take 13 % of the time.
"""
UTILITY: Final = "loopcore/_cyutility.c"
"""Functions that every module needs (arguments, imports, types), by Cython. Written into each, they cost a sixth."""
MACROS: Final = [
    ("CYTHON_CLINE_IN_TRACEBACK", "0"),
    ("LOOPCORE_TASK_SIZE", str(asyncio.Task.__basicsize__)),
]
HEAP_TYPES: Final = {"loopcore/kernel/visible.py": [("CYTHON_USE_TYPE_SPECS", "1")]}
"""Modules whose classes have to be made at run time: CPython wants that of a class derived from asyncio's."""
HOT: Final = (
    "loopcore/kernel/",
    "loopcore/transports/",
    "loopcore_backends/epoll.py",
    "loopcore_backends/uring/ring.py",
    "loopcore_plugins/recorder/",
)
"""The modules, and folders of modules, that tasks and data pass through."""
CAUGHT: Final = re.compile(r"__Pyx_GetException\(&(\w+), &(\w+), &(\w+)\)")
"""Where translated code catches an exception: it takes the type, the value and the traceback."""
APPENDED: Final = """\
    int result = PyList_Append(list, x);
    Py_DECREF(x);
    return result;
"""
"""Where translated code adds an item to the list of a comprehension; the caller gives the item up if this fails."""


class CompileError(Exception):
    """The modules could not be compiled; the text is the reason, in one line."""


def compile_mode() -> str:
    """Return the mode that `LOOPCORE_COMPILE` requests; raises ValueError for an unknown word."""
    mode = os.environ.get(VARIABLE, "").strip() or "auto"
    if mode not in MODES:
        raise ValueError(f"{VARIABLE}={mode!r} is not one of {', '.join(MODES)}")
    return mode


def hot_modules(source: Path) -> list[Path]:
    """Return the modules to compile, relative to the root they are in (`loopcore/kernel/handle.py`).

    Not those of a folder `_native`: they are the Python side of the C library.
    """
    found = []
    for root, package in ROOTS.items():
        base = source / root
        for header in sorted((base / package).rglob("*.pxd")):
            module = header.with_suffix(".py")
            if module.is_file() and module.stem != "__init__" and module.parent.name != "_native":
                found.append(module.relative_to(base))
    return found


def dotted(module: str) -> str:
    """Return the name by which the source `loopcore/kernel/task.py` is imported: `loopcore.kernel.task`."""
    return module.rpartition(".")[0].replace("/", ".")


def root_of(source: Path, module: Path) -> Path:
    """Return the source root (`core/`, ...) that contains `module`."""
    return next(source / root for root, package in ROOTS.items() if module.parts[0] == package)


def unsuited_interpreter() -> str:
    """Return why this interpreter gets no compiled modules; empty if it does."""
    if sys.implementation.name != "cpython":
        return f"{platform.python_implementation()} {NOT_CPYTHON}"
    return ""


def last_words(output: str) -> str:
    """Return the reason of a failed build in one line: the first message about a source, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if COMPLAINT.match(line) and "warning" not in line:
            return line
    last = lines[-1] if lines else "the compiler said nothing"
    last = re.sub(r"^[\w.]*Error: ", "", last)
    # distutils quotes the command with all its flags; its name is enough.
    return re.sub(r"Command '\['([^']+)'.*\]' returned", r"\1 returned", last)[:300]


def compiler_name() -> str:
    """Return the C compiler's name for itself, in one line; empty if it prints none.

    The whole command is run: in `ccache gcc` the first word is not the compiler.
    """
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
    if not command:
        return ""
    try:
        said = subprocess.run([*command, "--version"], check=False, capture_output=True, text=True, errors="replace")
    except OSError:
        return ""
    return said.stdout.partition("\n")[0].strip()


def tools() -> dict[str, str]:
    """Return the tools that compile here: Cython's version and the compiler's name."""
    try:
        cython = metadata.version("cython")
    except metadata.PackageNotFoundError:
        cython = ""
    return {"cython": cython, "compiler": compiler_name()}


def digest(tree: Path, *facts: str) -> str:
    """Return a key for what this file makes of the sources in `tree`; `facts` are what else decides."""
    found = hashlib.sha256()
    for fact in (*facts, Path(__file__).read_text(encoding="utf-8")):
        found.update(fact.encode() + b"\0")
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        found.update(path.relative_to(tree).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def keep(files: Iterable[Path], base: Path, place: Path) -> None:
    """Copy `files`, which are below `base`, to `place`. If another build has made `place` meanwhile, its copy stays."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        copy = Path(scratch, "copy")
        copy.mkdir()
        for path in files:
            target = copy / path.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        with contextlib.suppress(OSError):
            copy.rename(place)


def compile_once(tree: Path, out: Path, modules: list[Path]) -> None:
    """Compile `modules` of `tree` into `out`, or copy what an earlier build left in the cache.

    Cython translates alike for all Pythons, and not again what is newer than its source, as copies from the cache are.
    """
    folder = os.environ.get(CACHE, "").strip()
    if not folder:
        run_compiler(tree, out, modules)
        return
    settings = [f"{name}={os.environ.get(name, '')}" for name in ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS")]
    interpreter = [sys.version, str(sysconfig.get_config_var("EXT_SUFFIX")), platform.machine()]
    found = tools()
    compiled = Path(folder, digest(tree, *interpreter, *found.values(), *settings))
    if compiled.is_dir():
        shutil.copytree(compiled, out)
        return
    translated = Path(folder, digest(tree, found["cython"]))
    if translated.is_dir():
        shutil.copytree(translated, tree, dirs_exist_ok=True, copy_function=shutil.copyfile)
    run_compiler(tree, out, modules)
    keep(tree.rglob("*.c"), tree, translated)
    keep((path for path in out.rglob("*") if path.is_file()), out, compiled)


def compile_modules(source: Path, modules: list[Path], scratch: Path) -> list[Path]:
    """Compile `modules` in `scratch`, and return the extensions, relative to `scratch/out`; or raise CompileError."""
    for root, package in ROOTS.items():
        if (source / root / package).is_dir():
            shutil.copytree(
                source / root / package,
                scratch / "in" / package,
                ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.c", INFO.name),
            )
    out = scratch / "out"
    compile_once(scratch / "in", out, modules)
    built = [path.relative_to(out) for path in out.rglob("*") if path.is_file()]
    return sorted(path for path in built if path.suffix in (".so", ".pyd"))


def run_compiler(tree: Path, out: Path, modules: list[Path]) -> None:
    """Compile in a child process, whose lines of progress are printed as they come.

    Raises CompileError, after printing what Cython and the compiler complained of.
    """
    command = [sys.executable, os.path.abspath(__file__), "--out", str(out), *map(str, modules)]
    # A front end that isolates builds may extend sys.path in any way; the child needs the same packages.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        child = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=complaints, text=True, errors="replace"
        )
        with child:
            assert child.stdout is not None
            for line in child.stdout:
                print(line, end="", flush=True)
        complaints.seek(0)
        output = complaints.read()
    if child.returncode != 0:
        print(output, file=sys.stderr)
        raise CompileError(last_words(output))


class CompileHook(BuildHookInterface):
    """The hook that hatchling calls before and after it packs a wheel."""

    PLUGIN_NAME = "custom"
    _scratch: "tempfile.TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            mode = compile_mode()
        except ValueError as error:
            self.app.abort(str(error))  # raises SystemExit: a front end shows the text, not our frames
        source = Path(self.root)
        modules = hot_modules(source)
        editable = version == "editable"
        if editable:
            self._sweep(source)
        self._scratch = tempfile.TemporaryDirectory(prefix="loopcore-build-")
        scratch = Path(self._scratch.name)
        extensions: list[Path] = []
        reason = self._why_not(mode, modules, editable)
        if reason and mode == "require":
            self.app.abort(f"{VARIABLE}=require, but loopcore cannot be compiled: {reason}")
        if not reason:
            try:
                extensions = compile_modules(source, modules, scratch)
            except (CompileError, OSError) as error:
                if mode == "require":
                    self.app.abort(f"{VARIABLE}=require, but loopcore cannot be compiled: {error}")
                reason = f"could not be compiled: {error}"
        if reason:
            self.app.display_warning(f"loopcore is built without compiled modules: {reason}")
        info = self._info(source, mode, reason, modules if extensions else [])
        if editable:
            self._install_in_place(source, scratch, extensions, info)
            return
        self._add_to_wheel(build_data, scratch, extensions, info)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()

    @staticmethod
    def _why_not(mode: str, modules: list[Path], editable: bool) -> str:
        if mode == "no":
            return f"{VARIABLE}=no"
        if not modules:
            return "no module has a .pxd"
        unsuited = unsuited_interpreter()
        if unsuited:
            return unsuited
        if editable and mode != "require":
            return f"an editable install compiles only under {VARIABLE}=require"
        return ""

    @staticmethod
    def _info(source: Path, mode: str, reason: str, compiled: list[Path]) -> str:
        sources = {
            ".".join(module.with_suffix("").parts): hashlib.sha256(
                (root_of(source, module) / module).read_bytes()
            ).hexdigest()
            for module in compiled
        }
        facts = {"mode": mode, "reason": reason, "sources": sources}
        if compiled:
            facts |= tools()
        return json.dumps(facts, indent=1, sort_keys=True) + "\n"

    @staticmethod
    def _sweep(source: Path) -> None:
        """Remove extensions that an earlier editable install compiled in place; a stale extension hides its source."""
        for module in (*hot_modules(source), Path(UTILITY)):
            path = root_of(source, module) / module
            for pattern in (f"{path.stem}.*.so", f"{path.stem}.*.pyd"):
                for extension in path.parent.glob(pattern):
                    extension.unlink()
        (source / "core" / INFO).unlink(missing_ok=True)

    @staticmethod
    def _install_in_place(source: Path, scratch: Path, extensions: list[Path], info: str) -> None:
        for extension in extensions:
            shutil.copy2(scratch / "out" / extension, root_of(source, extension) / extension)
        (source / "core" / INFO).write_text(info, encoding="utf-8")

    @staticmethod
    def _add_to_wheel(build_data: dict[str, Any], scratch: Path, extensions: list[Path], info: str) -> None:
        notes = scratch / INFO.name
        notes.write_text(info, encoding="utf-8")
        included = build_data["force_include"]
        included[str(notes)] = INFO.as_posix()
        for extension in extensions:
            included[str(scratch / "out" / extension)] = extension.as_posix()
        if extensions:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def check_compiler(scratch: Path) -> None:
    """Compile one line against Python's headers: without a compiler, a minute of Cython's work would be wasted."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    scratch.mkdir(parents=True)
    source = scratch / "loopcore_probe.c"
    source.write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_loopcore_probe(void) { return NULL; }\n", "utf-8")
    extension = Extension("loopcore_probe", [str(source)])
    command = build_ext(Distribution({"name": "loopcore-probe", "ext_modules": [extension]}))
    command.build_lib = command.build_temp = str(scratch)
    command.ensure_finalized()
    command.run()


def compiler_flags(scratch: Path, module: str) -> list[str]:
    """Return the C compiler's flags for `module`; the header that it includes is written into `scratch`.

    The cost of an operation depends on how much code it touches (docs/adr/0002): calls into the interpreter go
    there directly, and error paths, which Cython writes into the middle of each function, are moved aside.
    Unless CFLAGS sets a level, it is -O3 for hot modules, and -O1, which takes half the time, for the others; unless
    CFLAGS asks for debug information, there is none.
    """
    if os.name == "nt":
        return ["/O2"]
    asked = os.environ.get("CFLAGS", "").split()
    if any(flag.startswith("-fsanitize") for flag in asked):
        return []  # a sanitizer's report names lines, and its code optimises slowly: CFLAGS sets the level
    level = "-O3" if module.startswith(HOT) else "-O1"
    chosen = [] if any(flag.startswith("-O") for flag in asked) else [level]
    if not any(flag.startswith("-g") for flag in asked):
        chosen.append("-g0")  # undoes the -g that many Pythons pass on: debug information triples the size of a wheel
    if sys.platform != "linux":
        return chosen
    header = scratch / "loopcore_seldom.h"
    header.write_text(SELDOM, encoding="utf-8")
    # A shift loses bits where the C type is too narrow, and Python's integers keep them: the builds would differ.
    # Pointers to functions of another type are an error of clang and of gcc 14, and a warning of older compilers.
    errors = ["-Werror=shift-count-overflow", "-Werror=incompatible-pointer-types"]
    return [*chosen, *errors, "-fno-plt", "-include", str(header)]


def allow_no_traceback(translated: str) -> str:
    """Return `translated` with `except` and `with` changed to accept an exception without a traceback.

    An exception has none if memory runs out while it is made; Cython 3.3 assumes one and crashes the process
    (cython/cython#4722 is about exceptions that are exchanged on the way).
    """
    functions = translated.split("\n}\n")
    for index, function in enumerate(functions):
        for kind, value, traceback in set(CAUGHT.findall(function)):
            three = f"{kind}, {value}, {traceback}"
            function = function.replace(f"__Pyx_DECREF({traceback});", f"__Pyx_XDECREF({traceback});")
            function = function.replace(f"{{{three}}}", f"{{{three} ? {traceback} : Py_None}}")
        functions[index] = function
    return "\n}\n".join(functions)


def free_once(translated: str) -> str:
    """Return `translated` with comprehensions that give up an item once where their list cannot grow.

    Cython 3.3 gives it up there and again where the function ends.
    """
    return translated.replace(APPENDED, APPENDED.replace("Py_DECREF(x)", "if (result == 0) Py_DECREF(x)"))


def build_module(module: str, out: Path) -> str:
    """Translate and compile `module`, a path relative to the current folder, into `out`; return why that failed."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extension = Extension(
        dotted(module),
        [module],
        include_dirs=["."],
        extra_compile_args=compiler_flags(out.parent, module),
        define_macros=[*MACROS, *HEAP_TYPES.get(module, [])],
    )
    try:
        (translated,) = cythonize(
            [extension],
            quiet=True,
            include_path=["."],
            compiler_directives=DIRECTIVES,
            show_all_warnings=False,
            shared_utility_qualified_name=dotted(UTILITY),
        )
        source = Path(translated.sources[0])
        text = free_once(allow_no_traceback(source.read_text(encoding="utf-8")))
        source.write_text(text, encoding="utf-8")
        command = build_ext(Distribution({"name": "loopcore", "ext_modules": [translated]}))
        command.build_lib = str(out)
        command.build_temp = str(out.parent / "objects")
        command.ensure_finalized()
        command.run()
    except Exception as error:
        # The tools have already reported what is wrong with which source; where they raised it does not matter.
        if not type(error).__name__.endswith(("CompileError", "LinkError")):
            raise
        return str(error)
    return ""


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_pool(size: int) -> Executor:
    """Return a pool of processes; of one thread where the semaphores of one cannot be made, as without /dev/shm."""
    try:
        return ProcessPoolExecutor(size)
    except (ImportError, NotImplementedError, OSError):
        return ThreadPoolExecutor(1)


def build(modules: list[str], out: Path) -> None:
    """Compile `modules` into `out`, on all processors. Runs in the child process, which ends if a module fails."""
    check_compiler(out.parent / "probe")
    # The largest first, so that the last ones keep no processor waiting.
    ordered = [UTILITY, *sorted(modules, key=os.path.getsize, reverse=True)]
    with make_pool(min(processors(), len(ordered))) as pool:
        waiting = {pool.submit(build_module, module, out): module for module in ordered}
        for number, done in enumerate(as_completed(waiting), 1):
            failure = done.result()
            if failure:
                pool.shutdown(wait=False, cancel_futures=True)
                sys.exit(failure)
            shown = dotted(waiting[done]).removeprefix("loopcore").lstrip("._")
            print(f"[{number}/{len(ordered)}] {shown}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compile modules; called by the build hook.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("modules", nargs="+")
    arguments = parser.parse_args()
    try:
        build([module.replace(os.sep, "/") for module in arguments.modules], arguments.out)
    except Exception as error:
        # The tools have already reported what is wrong with which source; where they raised it does not matter.
        if not isinstance(error, ImportError) and not type(error).__name__.endswith(("CompileError", "LinkError")):
            raise
        sys.exit(str(error))
