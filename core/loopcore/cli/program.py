"""Find the program that `loopcore run` is given: a file, a directory or zip, a module, a coroutine function.

`sys.argv` and `sys.path` are set on the way, because finding a module already depends on them:
`sys.argv` begins with the program, `sys.path[0]` is the directory of a file and the working directory
otherwise, as under `python`. A program that cannot be found or run is a UsageError; an exception that the program
raises while its modules are imported passes unchanged.
"""

import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType
from typing import Any, Final

from loopcore.cli.execution import Program, call_program, main_program
from loopcore.errors import UsageError
from loopcore.text import did_you_mean

FUNCTION: Final = re.compile(r"(?P<module>[^\W\d][\w.]*):(?P<function>[^\W\d][\w.]*)")


def set_path(first: str) -> None:
    """Make `first` the head of `sys.path`, in place of the directory of the command `loopcore`."""
    if not sys.flags.safe_path:  # under python -P there is no such entry, and none is wanted
        sys.path[0] = first


def find_target(target: str, arguments: Sequence[str]) -> Program:
    """Return the program in a file, a directory or a zip, or named by MODULE:FUNCTION."""
    match = FUNCTION.fullmatch(target)
    if match is not None and not os.path.exists(target):
        set_path(os.getcwd())
        sys.argv[:] = [target, *arguments]
        return find_function(match["module"], match["function"], arguments)
    if not os.path.exists(target):
        raise UsageError(f"can't open {target!r}: no such file{_hint(target)}")
    sys.argv[:] = [target, *arguments]
    if importable(target):
        set_path(target)
        spec = PathFinder.find_spec("__main__", [target])
        if spec is None:
            raise UsageError(f"{target!r} has no __main__.py, and cannot be run; name a file in it")
        return main_program(code_of(spec), spec, str(spec.origin))
    set_path(os.path.dirname(os.path.realpath(target)))
    return main_program(read_code(target), None, target)


def _hint(target: str) -> str:
    """Return what the user may have meant by a file that does not exist, or an empty string."""
    folder, name = os.path.split(target)
    try:
        entries = sorted(os.listdir(folder or "."))
    except OSError:
        return f"; there is no folder {folder!r}"
    if f"{name}.py" in entries:
        return f"; to run the file: loopcore run {target}.py"
    if not folder and _is_module(name):
        return f"; to run the module: loopcore run -m {name}"
    close = did_you_mean(name, (each for each in entries if each.endswith((".py", ".zip", ".pyz"))))
    return close or "; name a FILE that exists, -m MODULE or MODULE:FUNCTION"


def _is_module(name: str) -> bool:
    """Return whether the first part of a dotted name can be imported; imports nothing."""
    first = name.partition(".")[0]
    return (
        all(map(str.isidentifier, name.split(".")))
        and PathFinder.find_spec(first, [os.getcwd(), *sys.path]) is not None
    )


def importable(path: str) -> bool:
    """Return whether modules can be imported from `path`: a directory or an archive, not a source file."""
    return PathFinder.find_spec("__main__", [path]) is not None or os.path.isdir(path)


def read_code(path: str) -> CodeType:
    """Compile the source at `path`. A SyntaxError is the program's own, and passes through."""
    try:
        with io.open_code(absolute := os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        raise UsageError(f"can't open {path!r}: {error.strerror}") from None
    return compile(source, absolute, "exec", dont_inherit=True)


def find_module(name: str, arguments: Sequence[str]) -> Program:
    """Return the program in the module `name`, or in the `__main__` of the package `name`."""
    set_path(os.getcwd())
    sys.argv[:] = ["-m", *arguments]  # as under python while it looks for the module
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
        if spec is None:
            raise UsageError(f"{name!r} is a package without a __main__, and cannot be run; name a module in it")
    if spec is None:
        raise UsageError(f"no module named {name!r}{_path_hint(name)}")
    code = code_of(spec)
    sys.argv[0] = str(spec.origin)
    return main_program(code, spec, sys.argv[0])


def _path_hint(name: str) -> str:
    """Return what the user may have meant by a module that does not exist, or an empty string."""
    return f"; to run the file: loopcore run {name}" if os.path.exists(name) else _close_module(name)


def _close_module(name: str) -> str:
    """Return a module or package in the working directory whose name is like `name`, as a hint, or an empty string.

    If it has this very name, the hint says why it is not found.
    """
    names = sorted(module.name for module in pkgutil.iter_modules([os.getcwd()]))
    first = name.partition(".")[0]
    if sys.flags.safe_path and not sys.flags.isolated and first in names and find_spec(first) is None:
        return "; PYTHONSAFEPATH or -P keeps the current folder, where it is, off the path; PYTHONPATH=. adds it"
    return did_you_mean(name, (each for each in names if each != name))


def find_spec(name: str) -> ModuleSpec | None:
    """Import the parents of `name` and return its spec, or None if it does not exist."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # A parent that imports something missing is the program's error, not the caller's.
        if not is_part(error.name, name):
            raise
        return None
    except (ImportError, ValueError):  # a relative name, or a module without a spec
        return None


def is_part(missing: str | None, name: str) -> bool:
    """Return whether `missing` is `name` or one of its parents."""
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def code_of(spec: ModuleSpec) -> CodeType:
    """Return the code of the module that `spec` describes."""
    get_code: Callable[[str], CodeType | None] | None = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        raise UsageError(f"{spec.name!r} has no Python code that could be run")
    return code


def _coroutine_functions(owner: object) -> list[str]:
    members: dict[str, Any] = getattr(owner, "__dict__", {})  # a number has none
    return [name for name, value in members.items() if inspect.iscoroutinefunction(value)]


def find_function(module_name: str, function_name: str, arguments: Sequence[str]) -> Program:
    """Return the program that awaits a coroutine function with `arguments`, which stay strings."""
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not is_part(error.name, module_name):
            raise
        raise UsageError(f"no module named {module_name!r}{_close_module(module_name)}") from None
    for name in function_name.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            close = did_you_mean(name, _coroutine_functions(found))
            raise UsageError(f"module {module_name!r} has no {function_name!r}{close}") from None
    if not inspect.iscoroutinefunction(found):
        raise UsageError(
            f"{module_name}:{function_name} is not a coroutine function (async def); to run the whole module: "
            f"loopcore run -m {module_name}"
        )
    try:
        inspect.signature(found).bind(*arguments)
    except TypeError as error:
        raise UsageError(f"{module_name}:{function_name}{inspect.signature(found)}: {error}") from None
    return call_program(found, arguments)
