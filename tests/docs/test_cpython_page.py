"""The page on CPython's tests gives the reasons that the exclusion list gives."""

from pathlib import Path

from tests.asyncio_compat.exclusions import read_exclusions
from tests.asyncio_compat.page import PAGE, page, read_rows, reasons

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_exclusion_list_as_it_is() -> None:
    assert reasons(read_exclusions()) in (ROOT / PAGE).read_text(encoding="utf-8"), (
        "run tests/asyncio_compat/page.py again"
    )


def test_a_row_stays_until_its_run_is_repeated(tmp_path: Path) -> None:
    def result(python: str, backend: str, outcome: str) -> dict[str, object]:
        module = [{"test": "T.test", "outcome": outcome, "on_loopcore": True}]
        return {"python": python, "backend": backend, "compiled": False, "modules": {"test_x": module}}

    path = tmp_path / "page.md"
    path.write_text(page([result("3.9.1", "poll", "passed"), result("3.13.0", "epoll", "failed")]), encoding="utf-8")
    again = page([result("3.13.0", "epoll", "passed"), result("3.13.0", "uring", "skipped")], read_rows(path))
    path.write_text(again, encoding="utf-8")
    assert read_rows(path) == [
        ("3.9.1", "poll", "pure", "1", "1", "0", "0", "0"),
        ("3.13.0", "epoll", "pure", "1", "1", "0", "0", "0"),
        ("3.13.0", "uring", "pure", "0", "0", "0", "0", "1"),
    ]
