"""Source lines in tracebacks through compiled modules.

A frame of a compiled module names its source relative to the import path, `loopcore/kernel/task.py`. The source is
there, beside the extension. But linecache first asks the loader of the module, and the loader of an extension answers
that there is no source. So each package with compiled modules tells linecache where its sources are; a file is read
when a traceback shows it. What is told is the entry that `linecache.lazycache` makes: a tuple of one function.
"""

import linecache
import os
from collections.abc import Iterable
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES

_SUFFIXES = tuple(EXTENSION_SUFFIXES)


def show_sources(package: str, folders: Iterable[str]) -> None:
    """Let tracebacks show the sources of the extensions of `package`; `folders` are its `__path__`."""
    for folder in folders:
        try:
            files = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it is in a zip file, where no extension can be
        for file in files:
            if file.endswith(_SUFFIXES):
                source = file.partition(".")[0] + ".py"
                lazy = (partial(_read, os.path.join(folder, source)),)
                linecache.cache[os.path.join(*package.split("."), source)] = lazy


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
