"""Stacks of other threads, and which of their frames are the program's.

`sys._current_frames` returns what each thread is executing. The frames belong to threads that may continue as soon
as the interpreter switches, so they are converted to plain places at once and released.
"""

import itertools
import linecache
import os
import sys
import sysconfig
from pathlib import Path
from typing import Final

import loopcore
from loopcore.text import printable
from loopcore_plugins._tasktree import INSTALLED, Place, place_of

Stack = tuple[Place, ...]
"""The places of a thread, outermost first."""

_LOOPCORE: Final = str(Path(loopcore.__file__).parent) + os.sep
_PLUGINS: Final = str(Path(__file__).parents[1]) + os.sep
_STDLIB: Final = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_RUN: Final = loopcore.EventLoop.run_forever.__code__.co_filename
_DEEPEST: Final = 200


def stack_of(thread_id: int) -> Stack:
    """Return where a thread is; empty if it runs no Python code, or has ended."""
    frame = sys._current_frames().get(thread_id)
    places: list[Place] = []
    while frame is not None and len(places) < _DEEPEST:
        places.append(place_of(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(places))


def callback_of(stack: Stack) -> Stack:
    """Return the part of a loop's stack that belongs to the callback it runs; empty if that is a function in C."""
    inside = itertools.dropwhile(lambda place: not _runs_the_loop(place), stack)
    called = itertools.dropwhile(lambda place: place.file.startswith(_LOOPCORE), inside)
    return tuple(place for place in called if not place.file.startswith(_PLUGINS))


def common(earlier: Stack, later: Stack) -> Stack:
    """Return the common part of two samples: the calls that lasted from one to the other, with the lines of `later`.

    It ends with the first function that has moved to another line.
    """
    shared: list[Place] = []
    for before, now in zip(earlier, later, strict=False):
        if before.file != now.file or before.function != now.function:
            break
        shared.append(now)
        if before.line != now.line:
            break
    return tuple(shared)


def innermost_of_program(stack: Stack) -> Place | None:
    """Return the innermost place outside the standard library and loopcore, else the innermost of all."""
    return next(filter(_is_of_program, reversed(stack)), stack[-1] if stack else None)


def source_line(place: Place) -> str:
    """Return the text of the line, printable and without its indentation; empty if the source cannot be read.

    The program chooses the file name: it may be `/dev/stdin`, and reading that would take another reader's data.
    """
    if os.path.exists(place.file) and not os.path.isfile(place.file):
        return ""
    return printable(linecache.getline(place.file, place.line).strip())


def _runs_the_loop(place: Place) -> bool:
    return place.file == _RUN and place.function.endswith(".run_forever")


def _is_of_program(place: Place) -> bool:
    if place.file.startswith((_LOOPCORE, "<frozen")):
        return False
    # Installed packages are inside the directory of the standard library, too.
    return any(name in place.file for name in INSTALLED) or not place.file.startswith(_STDLIB)
