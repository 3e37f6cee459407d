"""The page on CPython's tests gives the reasons that the exclusion list gives."""

from pathlib import Path

from tests.asyncio_compat.exclusions import read_exclusions
from tests.asyncio_compat.page import PAGE, reasons

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_exclusion_list_as_it_is() -> None:
    assert reasons(read_exclusions()) in (ROOT / PAGE).read_text(encoding="utf-8"), (
        "run tests/asyncio_compat/page.py again"
    )
