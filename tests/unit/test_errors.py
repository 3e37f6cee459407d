"""The type of an error names the party at fault; for a place that cannot be written it is the user."""

import os
from pathlib import Path

import pytest

from loopcore import errors
from loopcore.errors import (
    BackendClosedError,
    BackendError,
    BackendUnavailableError,
    LoopcoreError,
    UsageError,
    check_writable,
)


def test_every_error_is_a_loopcore_error():
    types = [value for value in vars(errors).values() if isinstance(value, type)]
    assert types
    assert all(issubclass(kind, LoopcoreError) for kind in types)


@pytest.mark.parametrize("kind", [UsageError, BackendError, BackendUnavailableError])
def test_culprits_are_told_apart(kind):
    others = {UsageError, BackendError, BackendUnavailableError} - {kind}
    assert not any(issubclass(kind, other) for other in others)


def test_call_after_close_is_a_broken_contract():
    assert issubclass(BackendClosedError, BackendError)


def test_no_error_is_mistaken_for_one_of_the_operating_system():
    assert not issubclass(LoopcoreError, OSError)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names and links are POSIX's")
def test_a_place_that_can_be_written_stays_unchanged(tmp_path: Path):
    link, pipe, file = tmp_path / "link", tmp_path / "pipe", tmp_path / "file"
    link.symlink_to(tmp_path / "absent")
    os.mkfifo(pipe)  # opened, it would wait for a reader
    file.write_text("kept")
    for path in (link, pipe, file, tmp_path / "new"):
        check_writable(path)
    assert {path.name for path in tmp_path.iterdir()} == {"link", "pipe", "file"}
    assert link.is_symlink()
    assert file.read_text() == "kept"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links are POSIX's")
def test_what_a_link_names_is_not_made(tmp_path: Path):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    os.utime(folder, (0, 0))
    link.symlink_to(folder / "absent")
    check_writable(link)
    assert folder.stat().st_mtime == 0
    folder.rmdir()
    with pytest.raises(UsageError, match="cannot write"):
        check_writable(link)


@pytest.mark.parametrize("name", ["", "absent/file", "x" * 300])
def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path, name: str):
    with pytest.raises(UsageError, match="cannot write"):
        check_writable(tmp_path / name)
