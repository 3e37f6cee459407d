"""The digests are those of hashlib; what differs, is missing or no file is said."""

import hashlib
import os
from pathlib import Path

import pytest
from programs import run

CONTENTS = {"empty": b"", "small": b"abc", "sub/large": bytes(range(256)) * 4000, "sub/deep/with a name": b"\n" * 10}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    for name, content in CONTENTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def test_a_list_is_made_and_checked(folder: Path, tmp_path: Path, backend_name: str) -> None:
    listed = tmp_path / "digests.txt"
    made = run("files/digests.py", str(folder), "--list", str(listed), backend=backend_name)
    assert made == (0, f"4 files listed in {listed}\n", "")
    expected = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()}
    assert listed.read_text() == "".join(f"{expected[name]}  {name}\n" for name in sorted(expected))

    fine = run("files/digests.py", str(folder), "--check", str(listed), backend=backend_name)
    assert fine == (0, "4 of 4 files as listed\n", "")

    (folder / "small").write_bytes(b"abd")
    (folder / "empty").unlink()
    wrong = run("files/digests.py", str(folder), "--check", str(listed), backend=backend_name)
    assert wrong == (1, "empty: No such file or directory\nsmall: differs\n2 of 4 files as listed\n", "")


def test_what_is_no_file_is_said_and_the_rest_is_done(folder: Path, backend_name: str) -> None:
    os.mkfifo(folder / "fifo")
    code, out, err = run("files/digests.py", str(folder), backend=backend_name)
    assert code == 1
    assert len(out.splitlines()) == len(CONTENTS)
    assert err.startswith("fifo: ")
    assert "has no position" in err
