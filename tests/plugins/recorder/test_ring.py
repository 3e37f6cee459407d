"""The ring: records as the layout says, the newest kept."""

import struct
from pathlib import Path

from loopcore_plugins.recorder.layout import HEADER, LONGEST, RECORD, Kind, Word
from loopcore_plugins.recorder.reading import Event, read
from loopcore_plugins.recorder.ring import LABELS_SIZE, Ring, size_of

CAPACITY = 8
START = 5_000_000_000_000


def filled(count: int) -> bytes:
    """Return a ring after so many records, each a TICK a millisecond after the one before."""
    memory = bytearray(size_of(CAPACITY))
    ring = Ring(memory, CAPACITY)
    for number in range(count):
        ring.put(Kind.TICK, 0, number, START + number * 1_000_000)
    return bytes(memory)


def read_events(content: bytes, path: Path) -> list[Event]:
    path.write_bytes(content)
    return read(path).events


def test_a_record_has_the_form_of_the_layout() -> None:
    memory = bytearray(size_of(CAPACITY))
    ring = Ring(memory, CAPACITY)
    ring.put(Kind.BEGIN, 4, 0xABCD, 0xFEDC_BA98_7654_3210)
    first, who = struct.unpack_from("<QQ", memory, HEADER)
    assert first & 0xFFFF_FFFF == 0xABCD_0400 | Kind.BEGIN
    assert 0 <= first >> 32 <= LONGEST
    assert who == 0xFEDC_BA98_7654_3210
    assert ring.memory is memory


def test_the_header_says_how_to_read_the_rest() -> None:
    content = filled(3)
    words = struct.unpack_from(f"<{len(Word)}Q", content)
    assert (words[Word.CAPACITY], words[Word.WRITTEN]) == (CAPACITY, 3)
    assert words[Word.LABELS_AT] == HEADER + CAPACITY * RECORD
    assert words[Word.LABELS_AT] + LABELS_SIZE == len(content)


def test_a_full_ring_keeps_the_newest(tmp_path: Path) -> None:
    events = read_events(filled(2 * CAPACITY + 3), tmp_path / "app.rec")
    # The oldest of a full ring is left out: the process may have been killed while it replaced that one.
    assert [event.label for event in events] == list(range(CAPACITY + 4, 2 * CAPACITY + 3))


def test_nothing_is_written_outside_the_records() -> None:
    few, many = filled(1), filled(5 * CAPACITY)
    end = HEADER + CAPACITY * RECORD
    assert few[end:] == many[end:] == bytes(LABELS_SIZE)
    assert few[8 * (Word.THREAD + 1) : HEADER] == many[8 * (Word.THREAD + 1) : HEADER]
