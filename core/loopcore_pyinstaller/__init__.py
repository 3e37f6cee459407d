"""PyInstaller's hook for loopcore, found by its entry point `pyinstaller40`: docs/howto/freeze.md."""

from pathlib import Path


def hook_dirs() -> list[str]:
    """Return the folders in which PyInstaller looks for hooks."""
    return [str(Path(__file__).parent)]
