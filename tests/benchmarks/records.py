"""What is stored for the manual: rounded figures, a line each, and of which state of the tree they are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "explanation" / "performance"


def commit() -> str:
    """The commit of this tree, with a plus if something differs from it; empty where git does not say."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()
    except FileNotFoundError:
        return ""


def rounded(value: Any) -> Any:
    """Four significant digits are more than a measurement has; what is stored stays short."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def read(path: Path) -> dict[str, Any]:
    """What `write` has written; empty if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path: Path, head: Mapping[str, Any], name: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON: `head`, and under `name` the items, each in a line of its own, which a diff can tell apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n  ".join(json.dumps(item) for item in items)
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "{name}": [\n  {lines}\n ]\n}}\n', encoding="utf-8")
