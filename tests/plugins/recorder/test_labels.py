"""Labels: which name an object gets, each name once, and what happens when there is no more room."""

import asyncio
import functools
import struct
from collections.abc import Callable
from typing import Any

import pytest

from loopcore_plugins.recorder.labels import LONGEST_NAME, NAMES_SHARE, Labels
from loopcore_plugins.recorder.layout import HEADER, OTHER_LABEL, Word

FILE = __file__[-LONGEST_NAME:]


class Area:
    """Labels with their memory; `texts` are those written."""

    def __init__(self, size: int = 1 << 16) -> None:
        self.memory = bytearray(HEADER + size)
        self._set_word(Word.LABELS_AT, HEADER)
        self._set_word(Word.LABELS_SIZE, size)
        self.labels = Labels(self.memory, self._set_word)

    def _set_word(self, word: int, value: int) -> None:
        struct.pack_into("<Q", self.memory, 8 * word, value)

    def texts(self) -> list[list[str]]:
        found, at = [], HEADER
        (used,) = struct.unpack_from("<Q", self.memory, 8 * Word.LABELS_USED)
        while at < HEADER + used:
            (size,) = struct.unpack_from("<I", self.memory, at)
            found.append(self.memory[at + 4 : at + 4 + size].decode().split("\n"))
            at += 4 + size
        assert at == HEADER + used
        return found


@pytest.fixture
def area() -> Area:
    return Area()


def a_function() -> None: ...


class Called:
    def method(self) -> None: ...

    def __call__(self) -> None: ...


class Receiving(asyncio.Protocol):
    def data_received(self, data: bytes) -> None: ...


def line_of(function: Callable[..., Any]) -> str:
    return str(function.__code__.co_firstlineno)


def test_code_has_its_name_file_and_line(area: Area) -> None:
    assert area.labels.of_code(a_function.__code__) == 1
    assert area.labels.of_code(a_function.__code__) == 1
    assert area.texts() == [["a_function", FILE, line_of(a_function)]]
    assert area.labels.text(1) == f"a_function ({FILE}:{line_of(a_function)})"


def test_a_protocol_is_named_by_the_method_that_gets_its_data(area: Area) -> None:
    area.labels.of_code(Receiving)
    assert area.texts() == [["Receiving.data_received", FILE, line_of(Receiving.data_received)]]


@pytest.mark.parametrize(
    ("callback", "name"),
    [
        (functools.partial(functools.partial(a_function)), "a_function"),
        (functools.partial(Called().method), "Called.method"),
        (len, "builtins.len"),
        ([].append, "list.append"),
        (Called(), "Called"),
    ],
)
def test_other_callbacks_have_the_name_of_what_they_call(area: Area, callback: Any, name: str) -> None:
    area.labels.of(callback)
    assert area.texts()[0][0] == name


def test_a_job_of_to_thread_is_named_by_its_function(area: Area) -> None:
    import contextvars

    area.labels.of(functools.partial(contextvars.copy_context().run, a_function))
    assert area.texts()[0][0] == "a_function"


def test_a_label_is_three_lines_whatever_its_text(area: Area) -> None:
    area.labels.of_text("one\ntwo\r\nthree")
    area.labels.of_line("f", "odd\nname.py", 3)
    area.labels.of_name("\udcff")  # no UTF-8 has it
    assert area.texts() == [["one two  three", "", "0"], ["f", "odd name.py", "3"], ["\\udcff", "", "0"]]


def test_long_texts_keep_their_begin_and_long_paths_their_end(area: Area) -> None:
    area.labels.of_text("ValueError: " + "x" * 500)
    area.labels.of_line("f", "/" + "d" * 500 + "/app.py", 1)
    (text, _, _), (_, file, _) = area.texts()
    assert text.startswith("ValueError: x")
    assert file.endswith("d/app.py")
    assert len(text) == len(file) == LONGEST_NAME


def test_without_room_everything_gets_the_same_label_and_is_counted() -> None:
    area = Area(size=64)
    labels = [area.labels.of_line(f"text {number} ............", "", 0) for number in range(5)]
    assert labels == [1, 2, OTHER_LABEL, OTHER_LABEL, OTHER_LABEL]
    assert area.labels.of_line("text 0 ............", "", 0) == 1
    assert area.labels.dropped == 3
    assert area.labels.text(OTHER_LABEL) == "?"
    assert len(area.texts()) == 2


def test_names_of_tasks_leave_room_for_code() -> None:
    area = Area(size=1 << 10)
    for number in range(1000):
        area.labels.of_name(f"request {number}")
    assert area.labels.of_name("one more") == 0
    assert area.labels.dropped > 0
    assert sum(4 + len("\n".join(text)) for text in area.texts()) <= (1 << 10) // NAMES_SHARE + 32
    assert area.labels.of_code(a_function.__code__) not in (0, OTHER_LABEL)


def test_an_object_that_raises_on_every_access_has_a_label(area: Area) -> None:
    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __call__(self) -> None: ...

    assert area.labels.of(Proxy()) == OTHER_LABEL


def test_texts_leave_room_for_code(area: Area) -> None:
    for number in range(40_000):
        area.labels.of_text(f"error {number}")
    assert area.labels.of(a_function) != OTHER_LABEL
