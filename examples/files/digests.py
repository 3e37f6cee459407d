"""The SHA-256 of every file of a folder, many files at once, as sha256sum(1) writes it; or a check against such a list.

    python -m loopcore run examples/files/digests.py FOLDER --list digests.txt
    python -m loopcore run examples/files/digests.py FOLDER --check digests.txt
    python examples/files/digests.py FOLDER                  the list on the standard output, on asyncio's own loop

Files are read by `loopcore.files`, block by block, so that memory stays small however large they are, and the loop free
for other work. The exit code is 0 if all is well, 1 if a file differs, is missing or cannot be read.
"""

import argparse
import asyncio
import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from loopcore import files

AT_ONCE = 16
"""Files that are read at the same time."""

BLOCK = 256 * 1024


async def digest_of(path: Path) -> str:
    """Return the SHA-256 of the file `path`, in hexadecimal."""
    digest = hashlib.sha256()
    async with files.open(path) as file:
        async for block in file.blocks(BLOCK):
            digest.update(block)
    return digest.hexdigest()


async def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str | OSError]:
    """Return the SHA-256 of each of `names` in `folder`, or why there is none."""
    found: dict[str, str | OSError] = {}
    room = asyncio.Semaphore(AT_ONCE)

    async def note(name: str) -> None:
        async with room:
            try:
                found[name] = await digest_of(folder / name)
            except OSError as exc:
                found[name] = exc

    async with asyncio.TaskGroup() as group:
        for name in sorted(names):
            group.create_task(note(name))
    return found


def names_in(folder: Path) -> list[str]:
    """The names of the files below `folder`, from there."""
    return [os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder) for name in names]


async def read_list(path: Path) -> dict[str, str]:
    """Return the digests by name of a list that `write_list` or sha256sum(1) has written."""
    wanted = {}
    async with files.open(path) as file:
        async for line in file:
            digest, _, name = os.fsdecode(line.rstrip(b"\n")).partition("  ")
            wanted[name] = digest
    return wanted


async def write_list(path: Path, digests: dict[str, str]) -> None:
    """Write a new list to the disk, and only then give it the name `path`."""
    new = path.with_name(path.name + ".new")
    async with files.open(new, "wb") as file:
        for name, digest in sorted(digests.items()):
            await file.write(os.fsencode(f"{digest}  {name}\n"))
        await file.fsync()
    os.replace(new, path)


async def check(folder: Path, path: Path) -> int:
    """Compare the files of `folder` with the list `path`, and print what differs."""
    wanted = await read_list(path)
    found = await digests_of(folder, wanted)
    wrong = [(name, found[name]) for name in wanted if found[name] != wanted[name]]
    for name, digest in wrong:
        print(f"{name}: {digest.strerror if isinstance(digest, OSError) else 'differs'}")
    print(f"{len(wanted) - len(wrong)} of {len(wanted)} files as listed")
    return 1 if wrong else 0


async def make(folder: Path, path: Path | None) -> int:
    """Write the list of `folder` to `path`, or print it."""
    found = await digests_of(folder, names_in(folder))
    digests = {name: digest for name, digest in found.items() if isinstance(digest, str)}
    for name, error in found.items():
        if isinstance(error, OSError):
            print(f"{name}: {error.strerror or error}", file=sys.stderr)
    if path is None:
        for name, digest in sorted(digests.items()):
            print(f"{digest}  {name}")
    else:
        await write_list(path, digests)
        print(f"{len(digests)} files listed in {path}")
    return 0 if len(digests) == len(found) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="SHA-256 of every file of a folder.")
    parser.add_argument("folder", type=Path)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", type=Path, metavar="FILE", help="write the list to FILE")
    what.add_argument("--check", type=Path, metavar="FILE", help="compare with the list in FILE")
    options = parser.parse_args()
    if options.check is not None:
        return asyncio.run(check(options.folder, options.check))
    return asyncio.run(make(options.folder, options.list))


if __name__ == "__main__":
    sys.exit(main())
