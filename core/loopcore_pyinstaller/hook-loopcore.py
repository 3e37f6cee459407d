"""The modules and metadata of loopcore that PyInstaller does not find by following the imports of a program.

Backends and plugins are imported by name, and the metadata have their names. All modules of loopcore are listed because
compiled ones have no bytecode in which PyInstaller could look for imports.

PyInstaller runs this file when a program imports loopcore, and reads `datas` and `hiddenimports`.
"""

from PyInstaller.utils.hooks import collect_submodules, copy_metadata

LEFT_OUT = ("loopcore.testing", "loopcore.sim.testing", "loopcore.cli")
"""For tests and for the command line; they import pytest and rich. A program that imports one of them still gets it."""


def is_needed(module: str) -> bool:
    """Return whether a program may need `module` although it does not import it."""
    return not module.startswith(LEFT_OUT)


datas = copy_metadata("loopcore")
hiddenimports = [
    *collect_submodules("loopcore", filter=is_needed),
    *collect_submodules("loopcore_backends"),
    *collect_submodules("loopcore_plugins"),
]
