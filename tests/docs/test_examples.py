"""The examples of the manual and of README.md run: all Python blocks of a page, each as a program of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(
        match[1], id=f"{page.relative_to(ROOT)}:{page.read_text(encoding='utf-8')[: match.start()].count(chr(10)) + 1}"
    )
    for page in PAGES
    for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
]
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
"""Where `Channel[int](10)` is no link."""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("block", BLOCKS)
def test_example_runs(block: str, tmp_path: Path):
    program = tmp_path / "example.py"
    program.write_text(block, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "error", program], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    targets = LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_there_are_examples():
    assert len(BLOCKS) > 5
