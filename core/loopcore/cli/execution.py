"""Run a program as Python itself would.

The program's module is `sys.modules["__main__"]` and stays there until the process ends: pickle,
multiprocessing and `inspect` look there, and threads and `atexit` functions outlive the last line.
(`runpy` removes `__main__` when the program returns, so it is not used.) Exceptions, including SystemExit,
propagate in the usual way; `show_program_error` keeps our frames out of the traceback.
"""

import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, Final, TypeAlias

from loopcore.runner import run

OURS: Final = str(Path(__file__).parent.parent / "cli") + os.sep
ENTRANCE: Final = (
    str(Path(__file__).parent.parent / "__main__.py"),
    str(Path(__file__).parent.parent / "sim" / "commands.py"),  # it imports a program, too
    os.path.join(os.path.dirname(os.__file__), "runpy.py"),  # frozen in CPython, but not in PyPy
)
SETS_CACHED: Final = sys.version_info < (3, 15)
"""Whether modules have `__cached__` (gh-65961)."""


Program: TypeAlias = Callable[[], object]
"""A program that was found and checked; the call runs it to its end."""


def main_program(code: CodeType, spec: ModuleSpec | None, path: str) -> Program:
    """Return the program that executes `code` as the module `__main__`."""

    def execute() -> None:
        module = ModuleType("__main__")
        module.__file__ = path if spec is not None else os.path.abspath(path)
        module.__spec__ = spec
        if spec is None:
            module.__loader__ = SourceFileLoader("__main__", module.__file__)
        else:
            module.__loader__ = spec.loader
            module.__package__ = spec.parent
        if SETS_CACHED:
            module.__dict__["__cached__"] = spec.cached if spec is not None else None
        module.__dict__["__builtins__"] = sys.modules["builtins"]
        sys.modules["__main__"] = module
        exec(code, module.__dict__)

    return execute


def call_program(function: Callable[..., Coroutine[Any, Any, Any]], arguments: Sequence[str]) -> Program:
    """Return the program that awaits `function(*arguments)`; the result is ignored."""
    return lambda: run(function(*arguments))


def is_ours(filename: str) -> bool:
    """Return whether a frame belongs to the command and not to the program."""
    return filename.startswith((OURS, "<frozen ")) or filename in ENTRANCE


def show_program_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An excepthook: show the traceback from the program's first frame on."""
    frame = trace
    # The console script comes first, under an unknown file name; our frames follow it.
    if frame is not None and frame.tb_next is not None and is_ours(frame.tb_next.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    while frame is not None and is_ours(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    sys.__excepthook__(kind, error.with_traceback(frame), frame)
