"""The entry of every child process: `python .../loopcore_bench/start.py [--folder FOLDER] MODULE ARGUMENT...`.

Run by its path, it makes this package importable from its folder and nothing else: a child may run another
environment's interpreter, with another loopcore, and must not find this one on its path. FOLDER comes first on the
path. MODULE is a full name, of this package or from FOLDER.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def load_package() -> None:
    """Import `loopcore_bench` from this folder, without changing the path."""
    spec = importlib.util.spec_from_file_location(
        "loopcore_bench", _HERE / "__init__.py", submodule_search_locations=[str(_HERE)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["loopcore_bench"] = package
    spec.loader.exec_module(package)


def main() -> int:
    """Run the named module; it gets the arguments after its name."""
    if sys.path and sys.path[0] == str(_HERE):
        del sys.path[0]  # added by `python FILE`; its module names could hide others
    words = sys.argv[1:]
    if words[0] == "--folder":
        sys.path.insert(0, words[1])
        words = words[2:]
    load_package()
    module = importlib.import_module(words[0])
    return int(module.main(words[1:]))


if __name__ == "__main__":
    sys.exit(main())
