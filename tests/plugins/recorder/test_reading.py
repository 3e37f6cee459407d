"""Files of every kind: whole, wrapped around, cut off, damaged, foreign."""

import os
import random
import struct
from pathlib import Path

import pytest

from loopcore.errors import UsageError
from loopcore_plugins.recorder.chains import Chains
from loopcore_plugins.recorder.choosing import slowest
from loopcore_plugins.recorder.layout import HEADER, LONGEST, OTHER_LABEL, Kind, Word
from loopcore_plugins.recorder.model import Model, Wait
from loopcore_plugins.recorder.reading import Recording, read
from loopcore_plugins.recorder.telling import as_json, ending, overview
from tests.plugins.recorder import programs
from tests.plugins.recorder.building import PER_STEP, START, Builder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.rec"


def explained(recording: Recording) -> str:
    """Return the whole answer, to see that nothing in it fails."""
    model = Model(recording)
    return str(as_json(slowest(Chains(model), 5), model))


def test_times_are_learnt_from_the_ticks(path: Path) -> None:
    build = Builder()
    build.at = 1.0
    build.step(1, "first", 2.5)
    build.wait(10)
    recording = read(build.write(path))
    begin = next(event for event in recording.events if event.kind is Kind.BEGIN)
    assert begin.at == pytest.approx(START + 1_000_000, abs=100)
    assert recording.label(begin.label) == ("first", "/srv/app.py", 1)
    assert recording.problems == []
    assert (recording.begin, recording.end, recording.dropped) == (START, START + 10_000_000, 0)


def test_a_full_ring_holds_the_newest_records(path: Path) -> None:
    build = Builder(capacity=16)
    for number in range(40):
        build.step(number + 1, "callback", 1.0)
        build.wait(build.at + 1.0)
    recording = read(build.write(path))
    assert len(recording.events) == 16
    assert recording.dropped == len(build.records) - 16
    times = [event.at for event in recording.events]
    assert times == sorted(times)
    assert times[-1] == START + 80_000_000
    assert times[0] == pytest.approx(times[-1] - 10_000_000, abs=1_100_000)


def test_the_oldest_record_of_a_full_mapped_file_is_not_trusted(path: Path) -> None:
    build = Builder(capacity=16)
    for number in range(40):
        build.step(number + 1, "callback", 1.0)
        build.wait(build.at + 1.0)
    assert len(read(build.write(path, is_dump=False)).events) == 15


def test_a_time_that_did_not_fit_is_the_end_of_the_stall(path: Path) -> None:
    longest = LONGEST * PER_STEP / 1e6
    build = Builder()
    build.step(1, "slow", longest + 500)
    build.stall("blocked", 100, longest + 500)
    build.step(2, "victim", 1)
    build.wait(longest + 5000)
    build.wait(longest + 5010)
    build.wait(longest + 5020)
    recording = read(build.write(path))
    slow, victim = Model(recording).steps
    assert slow.end - slow.begin == pytest.approx((longest + 500) * 1e6, rel=1e-6)
    assert victim.begin == slow.end
    assert any("estimates" in problem for problem in recording.problems)


def test_a_time_that_did_not_fit_is_the_next_tick_if_the_loop_did_not_wait(path: Path) -> None:
    build = Builder()
    build.wait(5)
    build.step(1, "slow", 20_000)
    build.wait(None)
    recording = read(build.write(path))
    (slow,) = Model(recording).steps
    assert slow.end == recording.end == START + round(20_005.01 * 1e6)


@pytest.mark.parametrize("size", [HEADER, HEADER + 40, HEADER + 16 * 7 + 3, -1, -40])
def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(path: Path, size: int) -> None:
    build = Builder(capacity=64)
    programs.lock_across_an_await(build)
    path.write_bytes(build.content()[:size])
    recording = read(path)
    assert recording.problems
    explained(recording)


def test_a_dump_that_is_cut_off_is_not_the_file_of_a_killed_process(path: Path) -> None:
    build = Builder(capacity=16)
    for _ in range(40):
        build.step(1, "callback", 1.0)
        build.wait(build.at + 1.0)
    content = build.content()
    for torn, what in ((content[:-9], "cut off"), (content[:-9] + b"\xff" * 9, "damaged")):
        path.write_bytes(torn)
        recording = read(path)
        assert f"the file is {what}, so the reason for the dump is unknown" in overview(Model(recording))
        assert not any("killed" in line for line in overview(Model(recording)))
        assert len(recording.events) == 16  # the oldest record of a dump is whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(UsageError, match=r"is not a regular file; give a file that `loopcore dump`"):
            read(path)


def test_a_half_written_record_is_left_out(path: Path) -> None:
    build = Builder()
    build.step(1, "callback", 1.0)
    build.wait(10)
    build.wait(20)
    build.wait(30)
    build.records.append(struct.pack("<QQ", 0, 12345))  # no kind yet
    build.records.append(struct.pack("<QQ", Kind.TICK | 500 << 32, 0x7F00_0000_1000))  # `who` is of an older record
    recording = read(build.write(path, is_dump=False))
    assert recording.end == START + 30_000_000
    assert len(recording.problems) == 2
    assert "half written" in recording.problems[0]
    assert "impossible time" in recording.problems[1]


def test_unknown_labels_are_said(path: Path) -> None:
    build = Builder()
    build.record(Kind.BEGIN, label=999, who=1)
    build.record(Kind.BEGIN, label=OTHER_LABEL, who=2)
    build.wait(5)
    recording = read(build.write(path))
    assert [str(step.label) for step in Model(recording).steps] == ["?", "a name for which there was no room"]
    assert any("shown as '?'" in problem for problem in recording.problems)


def test_garbage_never_crashes_the_reader(path: Path) -> None:
    draw = random.Random(35)
    build = Builder(capacity=64)
    programs.full_executor(build)
    for _ in range(60):
        content = bytearray(build.content())
        for _ in range(draw.randrange(1, 60)):
            content[draw.randrange(HEADER, len(content))] = draw.randrange(256)
        path.write_bytes(content)
        explained(read(path))


def test_facts_of_another_form_are_left_out(path: Path) -> None:
    build = Builder()
    build.facts["stalls"] = [None, {"cause": 1}, 3]
    build.facts["tasks"] = [{"who": "x"}, {"who": 5, "name": "five"}]
    recording = read(build.write(path))
    assert (recording.stalls, recording.names) == ([], {5: "five"})


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_deep_facts_are_damaged_ones(path: Path, depth: int) -> None:
    build = Builder()
    build.step(1, "first", 5)
    build.facts["program"] = "?"
    content = build.content()
    deep = content.replace(b'"?"', b"[" * depth + b"]" * depth)
    words = struct.pack("<Q", int.from_bytes(content[8 * Word.FACTS :][:8], "little") + len(deep) - len(content))
    path.write_bytes(deep[: 8 * Word.FACTS] + words + deep[8 * Word.FACTS + 8 :])
    recording = read(path)
    assert (recording.facts, recording.problems[0]) == (
        {},
        "its end is missing or damaged: no stacks of tasks, no stalls",
    )
    explained(recording)


@pytest.mark.parametrize("time", [10**400, 1 << 63, -(10**400), 1e300], ids=["large", "late", "negative", "float"])
def test_impossible_times_are_left_out(path: Path, time: float) -> None:
    build = Builder()
    build.step(1, "first", 5)
    build.stall("blocked", 0, 5)
    stall = build.facts["stalls"][0]
    build.facts["stalls"] = [stall | {"ended_ns": time}, stall | {"seconds": time}, stall | {"cpu_seconds": time}]
    busy = {"began_ns": START, "ended_ns": START + 9, "cpu_seconds": 0.1, "thread": "other"}
    build.facts["busy"] = [busy | {key: time} for key in ("began_ns", "ended_ns", "cpu_seconds")]
    build.facts["at_ns"] = time
    build.wait(10)
    recording = read(build.write(path))
    assert (recording.stalls, recording.busy, recording.end) == ([], [], START + 10_000_000)
    explained(recording)


def test_times_that_the_ticks_make_impossible_are_bounded(path: Path) -> None:
    build = Builder()
    build.records.clear()
    for steps, who in ((LONGEST - 1, 1), (1, (1 << 63) - 1), (1, 1 << 63)):
        build.records.append(struct.pack("<QQ", Kind.TICK | steps << 32, who))
    build.records.append(struct.pack("<QQ", Kind.BEGIN | (LONGEST - 1) << 32, 7))
    recording = read(build.write(path))
    assert (recording.begin, recording.end) == (1, (1 << 63) - 1)
    explained(recording)


def test_a_line_number_of_many_digits_is_unknown(path: Path) -> None:
    build = Builder()
    build.label("first")
    content = build.content()
    name = b"first\n/srv/app.py\n" + b"9" * 4000 + b"0" * 1000
    area = struct.pack("<I", len(name)) + name
    at = int.from_bytes(content[8 * Word.LABELS_AT :][:8], "little")
    damaged = bytearray(content[:at] + area + content[at:])
    struct.pack_into("<Q", damaged, 8 * Word.LABELS_USED, len(area))
    struct.pack_into("<Q", damaged, 8 * Word.LABELS_SIZE, len(area))
    path.write_bytes(damaged)
    assert read(path).labels == [("first", "/srv/app.py", 0)]


@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000)])
def test_another_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a recording; give a file that"):
        read(path)


def test_another_version_and_a_damaged_header_are_refused(path: Path) -> None:
    content = bytearray(Builder().content())
    struct.pack_into("<Q", content, 8 * Word.VERSION, 99)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="layout 99"):
        read(path)
    content = bytearray(Builder().content())
    struct.pack_into("<Q", content, 8 * Word.CAPACITY, 7)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="damaged header"):
        read(path)


def test_an_empty_recording_says_so(path: Path) -> None:
    build = Builder()
    build.records.clear()
    recording = read(build.write(path))
    assert "it has no readable record" in recording.problems
    assert overview(Model(recording))


def test_the_file_of_a_killed_process_says_what_ran_last(path: Path) -> None:
    build = Builder()
    build.wait(10)
    build.step(1, "crash", 5)
    model = Model(read(build.write(path, is_dump=False)))
    assert ending(model) == "crash#1 (app.py:1) ran, which had not returned"
    assert any("may have been killed" in line for line in overview(model))
    build.wait(50)
    build.record(Kind.WAIT, argument=1)
    model = Model(read(build.write(path, is_dump=False)))
    assert isinstance(model.spans[-1], Wait)
    assert ending(model) == "the loop waited for events"
