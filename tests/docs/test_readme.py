"""README.md is read on package indexes, too: its links are absolute, and lead to files of this repository."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
LINKS = re.findall(r"\]\(([^)]+)\)", README)
HERE = re.compile(re.escape(REPOSITORY) + r"/(?:blob|raw|tree)/main/([^#]+)")


def test_links_are_absolute_or_within_the_page() -> None:
    assert [link for link in LINKS if not link.startswith(("https://", "#"))] == []


@pytest.mark.parametrize("link", [link for link in LINKS if "github.com" in link])
def test_links_into_the_repository_lead_somewhere(link: str) -> None:
    match = HERE.fullmatch(link.partition("#")[0])
    assert match, f"not below {REPOSITORY}, the address that pyproject.toml names"
    assert (ROOT / match[1]).exists()


def test_the_readme_fits_on_three_screens() -> None:
    assert len(README.splitlines()) <= 120
