"""The same random calls on the simulated disk and on the real one have the same results, errors and final tree."""

import os
import random
import stat

import pytest

NAMES = [
    "a",
    "b",
    "c",
    "d/a",
    "d/b",
    "d/e/a",
    "d",
    "d/e",
    "link",
    "d/link",
    "a/",
    "d/",
    "none/a",
    "d/../a",
    ".",
    "d/..",
    "d/.",
]
FLAGS = [
    os.O_RDONLY, os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDONLY | os.O_DIRECTORY,
    os.O_RDONLY | os.O_NOFOLLOW, os.O_RDWR | os.O_APPEND, os.O_WRONLY | os.O_TRUNC,
]  # fmt: skip
MODES = ["r", "w", "a", "x", "r+", "w+", "a+", "x+"]


class Program:
    """Random calls, all of them drawn before they are made: both disks get the same."""

    def __init__(self, root: str, seed: int, flags: list[int]) -> None:
        self.flags = flags
        self.root = root
        self.random = random.Random(seed)
        self.fds: list[int] = []
        self.results: list[object] = []

    def run(self, count: int) -> list[object]:
        for _ in range(count):
            name, call = self.draw()
            try:
                result = call()
            except OSError as exc:
                result = (type(exc).__name__, exc.errno, self.relative(exc.filename), self.relative(exc.filename2))
            except ValueError as exc:
                result = (type(exc).__name__, str(exc))
            self.results.append((name, result))
        for fd in self.fds:
            os.close(fd)
        return self.results

    def relative(self, path: object) -> object:
        return path.removeprefix(self.root) if isinstance(path, str) else path

    def draw(self):
        pick = self.random
        names = [f"{self.root}/{pick.choice(NAMES)}" for _ in range(2)]
        path, other = names
        fd = pick.choice(self.fds) if self.fds else 999_999
        flags, size, offset = (
            pick.choice(self.flags),
            pick.choice([0, 1, 100, 5_000]),
            pick.choice([0, 3, 4_096, 9_000]),
        )
        data = bytes([pick.randrange(1, 256)]) * size
        whence = pick.choice([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END])
        mode = pick.choice(MODES)
        calls = {
            "open": lambda: self.open(path, flags),
            "close": lambda: self.close(fd),
            "read": lambda: os.read(fd, size),
            "write": lambda: os.write(fd, data),
            "pread": lambda: os.pread(fd, size, offset),
            "pwrite": lambda: os.pwrite(fd, data, offset),
            "lseek": lambda: stat.S_ISDIR(os.fstat(fd).st_mode) or os.lseek(fd, offset - 50, whence),
            "ftruncate": lambda: os.ftruncate(fd, offset + 1),
            "truncate": lambda: os.truncate(path, offset),
            "fsync": lambda: os.fsync(fd),
            "dup": lambda: self.keep(os.dup(fd)),
            "fstat": lambda: status(os.fstat(fd)),
            "stat": lambda: status(os.stat(path)),
            "lstat": lambda: status(os.lstat(path)),
            "rename": lambda: os.rename(path, other),
            "replace": lambda: os.replace(path, other),
            "link": lambda: os.link(path, other, follow_symlinks=False),
            "symlink": lambda: os.symlink(pick.choice(["a", "d", "none", "link", "../b"]), path),
            "readlink": lambda: os.readlink(path),
            "unlink": lambda: os.unlink(path),
            "remove": lambda: os.remove(path),
            "mkdir": lambda: os.mkdir(path),
            "makedirs": lambda: os.makedirs(path, exist_ok=True),
            "rmdir": lambda: os.rmdir(path),
            "listdir": lambda: sorted(os.listdir(path)),
            "scandir": lambda: self.scan(path),
            "access": lambda: os.access(path, os.R_OK),
            "chmod": lambda: os.chmod(path, 0o640),
            "utime": lambda: os.utime(path, ns=(1_000, 2_000)),
            "samefile": lambda: os.path.samefile(path, other),
            "realpath": lambda: os.path.relpath(os.path.realpath(path), os.path.realpath(self.root)),
            "python": lambda: self.python(path, mode, data),
        }
        name = pick.choice(["open", "open", "write", *calls])
        return f"{name} {self.relative(path)}", calls[name]

    def keep(self, fd: int) -> None:
        self.fds.append(fd)

    def open(self, path: str, flags: int) -> None:
        self.keep(os.open(path, flags, 0o644))

    def close(self, fd: int) -> None:
        os.close(fd)
        self.fds.remove(fd)

    def scan(self, path: str) -> list[object]:
        with os.scandir(path) as entries:
            return sorted(
                (each.name, each.is_dir(), each.is_file(), each.is_symlink(), each.is_dir(follow_symlinks=False))
                for each in entries
            )

    def python(self, path: str, mode: str, data: bytes) -> object:
        with open(path, f"{mode}b") as file:
            seen: list[object] = [file.tell(), file.readable(), file.writable(), file.mode]
            if file.writable():
                seen.append(file.write(data))
            if file.readable():
                file.seek(0)
                seen.append(file.read(6_000))
            return [*seen, file.tell()]


def status(found: os.stat_result) -> object:
    if stat.S_ISDIR(found.st_mode):
        return found.st_mode
    mtime = found.st_mtime_ns if found.st_mtime_ns == 2_000 else None
    return (found.st_mode, found.st_nlink, found.st_size, found.st_uid, mtime)


def tree(root: str) -> list[object]:
    found: list[object] = []
    for where, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders) + sorted(files):
            path = f"{where}/{name}"
            content: object = os.readlink(path) if os.path.islink(path) else None
            if content is None and not os.path.isdir(path):
                with open(path, "rb") as file:
                    content = file.read()
            found.append((os.path.relpath(path, root), status(os.lstat(path)), content))
    return found


def run(root: str, seed: int, flags: list[int] = FLAGS) -> tuple[list[object], list[object]]:
    return Program(root, seed, flags).run(150), tree(root)


def compare(simulated: tuple[list[object], list[object]], real: tuple[list[object], list[object]]) -> None:
    for i, (one, two) in enumerate(zip(simulated[0], real[0], strict=True)):
        assert one == two, f"call {i}"
    assert simulated[1] == real[1]


@pytest.mark.parametrize("seed", range(60))
def test_random_calls(simulated, tmp_path, seed):
    with simulated():
        os.mkdir("/sim/root")
        simulated_run = run("/sim/root", seed)
    root = tmp_path / "root"  # links may lead to the folder above it
    root.mkdir()
    compare(simulated_run, run(str(root), seed))


@pytest.mark.parametrize("seed", range(300, 330))
def test_random_calls_on_a_copy_of_real_files(simulated, tmp_path, seed):
    # A descriptor for reading only is a real one, and does not see what is written later.
    flags = [each for each in FLAGS if each & (os.O_WRONLY | os.O_RDWR)]
    start, real = tmp_path / "one" / "start", tmp_path / "two" / "real"
    for folder in (start, real):
        folder.mkdir(parents=True)
        run(str(folder), 1)
    before = tree(str(tmp_path / "one"))
    with simulated():
        result = run(str(start), seed, flags)
    assert tree(str(tmp_path / "one")) == before
    compare(result, run(str(real), seed, flags))
