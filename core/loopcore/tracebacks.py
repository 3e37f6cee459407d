"""Source lines in tracebacks through compiled modules.

A frame of a compiled module names its source relative to the import path, `loopcore/kernel/task.py`. That file is next
to the extension. But linecache first asks the loader of the module, and that of an extension returns None. So each
package with compiled modules enters its sources into linecache's cache, as `linecache.lazycache` does: a tuple of one
function, which reads the file when a traceback shows it.

Thread: any; called while a package is imported.
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
