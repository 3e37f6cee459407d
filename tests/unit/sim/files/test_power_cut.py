"""What a power cut leaves: exactly what POSIX allows, over every list of choices."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loopcore_backends.sim.files.inodes import PAGE, SECTOR

OLD, NEW = b"old" * 1_000, b"new!" * 1_000


class Choices:
    """A list of choices, then zeros; `sizes` is how many alternatives each had."""

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.sizes: list[int] = []

    def choose(self, n: int, label: str) -> int:
        i = len(self.sizes)
        self.sizes.append(n)
        return self.values[i] if i < len(self.values) else 0


def all_choices(run: Callable[[Choices], object], limit: int = 5_000) -> Iterator[object]:
    """Results of `run` with every list of choices, depth first; torn pages with a few patterns only."""
    waiting: list[list[int]] = [[]]
    for _ in range(limit):
        if not waiting:
            return
        values = waiting.pop()
        choices = Choices(values)
        yield run(choices)
        for i in range(len(values), len(choices.sizes)):
            taken = [*values, *[0] * (i - len(values))]
            waiting += [[*taken, value] for value in range(1, min(choices.sizes[i], 5))]
    raise AssertionError("too many outcomes")


@pytest.fixture
def outcomes(simulated) -> Callable[..., set[object]]:
    def outcomes(program: Callable[[], None], look: Callable[[], object] | None = None) -> set[object]:
        def run(choices: Choices) -> object:
            with simulated() as world:
                Path("/sim/file").write_bytes(OLD)
                os.sync()
                program()
                world.host.disk.power_cut(choices.choose)
                return (look or content)()

        return set(all_choices(run))

    return outcomes


def content(path: str = "/sim/file") -> bytes | None:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def write(path: str, data: bytes, *, sync: bool) -> None:
    with open(path, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(path: str = "/sim") -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def test_a_replacement_with_fsync_is_the_old_content_or_the_new(outcomes):
    def program() -> None:
        write("/sim/new", NEW, sync=True)
        os.replace("/sim/new", "/sim/file")

    assert outcomes(program) == {OLD, NEW}


def test_a_replacement_and_its_folder_synced_is_the_new_content(outcomes):
    def program() -> None:
        write("/sim/new", NEW, sync=True)
        os.replace("/sim/new", "/sim/file")
        sync_folder()

    assert outcomes(program) == {NEW}


def test_a_replacement_without_fsync_may_lose_both(outcomes):
    def program() -> None:
        write("/sim/new", NEW, sync=False)
        os.replace("/sim/new", "/sim/file")

    found = outcomes(program)
    assert {OLD, NEW, b"", bytes(len(NEW))} <= found
    assert len(found) > 4  # torn ones


def test_a_synced_folder_does_not_make_content_durable(outcomes):
    def program() -> None:
        write("/sim/new", NEW, sync=False)
        os.replace("/sim/new", "/sim/file")
        sync_folder()

    found = outcomes(program)
    assert b"" in found
    assert OLD not in found


def test_a_file_written_in_place_without_fsync_may_be_empty_old_new_or_torn(outcomes):
    found = outcomes(lambda: write("/sim/file", NEW, sync=False))
    assert {OLD, NEW, b""} <= found


def test_a_file_written_in_place_with_fsync_is_new(outcomes):
    assert outcomes(lambda: write("/sim/file", NEW, sync=True)) == {NEW}


def test_a_new_file_is_there_for_certain_only_after_its_folder_is_synced(outcomes):
    assert outcomes(lambda: write("/sim/more", NEW, sync=True), lambda: content("/sim/more")) == {None, NEW}

    def program() -> None:
        write("/sim/more", NEW, sync=True)
        sync_folder()

    assert outcomes(program, lambda: content("/sim/more")) == {NEW}


def test_an_unlinked_file_may_come_back_with_its_content(outcomes):
    assert outcomes(lambda: os.unlink("/sim/file")) == {OLD, None}


def test_a_rename_is_never_half_done(outcomes):
    def look() -> object:
        return content("/sim/file"), content("/sim/moved")

    assert outcomes(lambda: os.rename("/sim/file", "/sim/moved"), look) == {(OLD, None), (None, OLD)}


def test_changes_of_other_names_may_overtake_each_other(outcomes):
    def program() -> None:
        write("/sim/one", b"1", sync=True)
        write("/sim/two", b"2", sync=True)

    look = lambda: (content("/sim/one"), content("/sim/two"))  # noqa: E731
    assert outcomes(program, look) == {(None, None), (b"1", None), (None, b"2"), (b"1", b"2")}


def test_changes_of_one_name_are_lost_from_the_last_one_backwards(outcomes):
    def program() -> None:
        for text in (b"1", b"2"):
            write("/sim/new", text, sync=True)
            os.replace("/sim/new", "/sim/file")

    look = lambda: (content("/sim/file"), content("/sim/new"))  # noqa: E731
    assert outcomes(program, look) == {
        (OLD, None), (OLD, b"1"), (b"1", None), (b"1", b"2"), (b"2", None),
    }  # fmt: skip


def test_a_folder_sync_does_not_reach_other_folders(outcomes):
    def program() -> None:
        os.makedirs("/sim/a")
        sync_folder()
        write("/sim/a/inside", b"x", sync=True)
        sync_folder()

    assert outcomes(program, lambda: content("/sim/a/inside")) == {None, b"x"}


def test_pages_are_lost_independently_and_torn_at_sectors(outcomes):
    before, after = b"-" * (2 * PAGE), b"+" * (2 * PAGE)

    def program() -> None:
        write("/sim/file", before, sync=True)
        fd = os.open("/sim/file", os.O_WRONLY)
        os.write(fd, after)
        os.close(fd)

    found = outcomes(program)
    assert {before, after, after[:PAGE] + before[:PAGE], before[:PAGE] + after[:PAGE]} <= found
    assert before[:SECTOR] + after[SECTOR:] in found
    for data in found:
        assert isinstance(data, bytes)
        assert len(data) == 2 * PAGE
        sectors = {data[i : i + SECTOR] for i in range(0, len(data), SECTOR)}
        assert sectors <= {before[:SECTOR], after[:SECTOR]}


def test_appended_data_may_be_cut_off_or_read_as_zeros(outcomes):
    def program() -> None:
        with open("/sim/file", "ab") as file:
            file.write(b"end")

    assert outcomes(program) == {OLD, OLD + b"end", OLD + bytes(3)}


def test_a_descriptor_with_o_sync_needs_no_fsync(outcomes):
    def program() -> None:
        fd = os.open("/sim/file", os.O_WRONLY | os.O_SYNC)
        os.pwrite(fd, b"NEW", 0)
        os.close(fd)

    assert outcomes(program) == {b"NEW" + OLD[3:]}


def test_a_failed_fsync_is_not_repaired_by_a_second_one(outcomes, simulated):
    with simulated() as world:
        disk = world.host.disk
        write("/sim/file", OLD, sync=True)
        sync_folder()
        fd = os.open("/sim/file", os.O_WRONLY)
        os.pwrite(fd, b"NEW", 0)
        disk.fault = lambda operation, path: 5 if operation == "sync" else None
        with pytest.raises(OSError, match="Input/output"):
            os.fsync(fd)
        disk.fault = None
        os.fsync(fd)
        assert content() == b"NEW" + OLD[3:]
        disk.power_cut(lambda n, label: 0)
        assert content() == OLD


def test_what_is_kept_is_durable_at_the_next_power_cut(simulated):
    with simulated() as world:
        disk = world.host.disk
        write("/sim/file", NEW, sync=False)
        disk.power_cut(lambda n, label: 0)
        disk.power_cut(lambda n, label: pytest.fail(f"asked {label!r}"))
        assert content() == NEW


def test_a_file_object_of_a_dead_process_writes_nothing(simulated):
    with simulated() as world:
        file = open("/sim/file", "w")  # noqa: SIM115
        file.write("buffered")
        world.descriptors.forget_all_of(world.host)
        world.host.disk.power_cut(lambda n, label: 0)
        other = open("/sim/other", "w")  # noqa: SIM115
        assert other.fileno() == 1_000_000
        file.close()
        other.write("other")
        other.close()
        assert (content(), content("/sim/other")) == (b"", b"other")


def test_labels_name_files_and_possibilities(simulated):
    labels: list[str] = []
    with simulated() as world:
        write("/sim/file", OLD, sync=True)
        sync_folder()
        write("/sim/file", NEW, sync=False)
        os.rename("/sim/file", "/sim/moved")
        world.host.disk.power_cut(lambda n, label: labels.append(label) or 0)
    assert labels == [
        "power cut, names: how many of the last changes are lost (rename /sim/file to /sim/moved)",
        "power cut, sizes: /sim/moved keeps its size, or is cut short, or has its old size",
        "power cut, pages: page 0 of /sim/moved is kept, lost or torn",
    ]


def test_space_is_counted_after_a_power_cut(simulated):
    with simulated() as world:
        disk = world.host.disk
        write("/sim/file", NEW, sync=True)
        sync_folder()
        used = disk.used
        os.unlink("/sim/file")
        assert disk.used == used - PAGE
        disk.power_cut(lambda n, label: n - 1)
        assert disk.used == used
