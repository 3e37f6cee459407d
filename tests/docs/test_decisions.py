"""Records of decisions can be found: every reference leads to one, and their index has them all."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "adr"
REFERENCE = re.compile(r"(?:adr/|\bADR\s+)(\d{4})(-[a-z0-9-]+\.md)?")


def references() -> Iterator[tuple[Path, str]]:
    """Yield each reference to a record: the file that has it, and the beginning of the record's name."""
    for folder in ("core", "backends", "plugins", "tests", "docs"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".pxd", ".md"}:
                for number, rest in REFERENCE.findall(path.read_text(encoding="utf-8")):
                    yield path, number + rest


def test_every_reference_leads_to_a_record() -> None:
    names = [record.name for record in RECORDS.glob("0*.md")]
    lost = [f"{path}: {name}" for path, name in references() if not any(each.startswith(name) for each in names)]
    assert not lost


def test_the_index_lists_every_record() -> None:
    listed = re.findall(r"\]\(([a-z0-9-]+\.md)\)", (RECORDS / "index.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(record.name for record in RECORDS.glob("*.md") if record.name != "index.md")


def test_numbers_of_records_are_unique_and_in_their_titles() -> None:
    records = sorted(RECORDS.glob("0*.md"))
    numbers = [record.name[:4] for record in records]
    assert len(numbers) == len(set(numbers))
    for record in records:
        assert record.read_text(encoding="utf-8").startswith(f"# {record.name[:4]}: ")


@pytest.mark.parametrize("section", ["Context", "Options that lost", "Price"])
def test_every_record_has_the_section(section: str) -> None:
    missing = [each.name for each in RECORDS.glob("0*.md") if f"\n## {section}\n" not in each.read_text("utf-8")]
    assert not missing
