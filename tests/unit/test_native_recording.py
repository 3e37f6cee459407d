"""`loopcore._native.recording`: its functions in Python do what those in C are said to do."""

import time
from typing import Any

import pytest

from loopcore._native import recording


def a_function() -> None:
    pass


class AClass:
    def method(self) -> None:
        pass


def test_the_counter_never_goes_back_and_has_a_rate() -> None:
    counts = [recording.counter() for _ in range(1000)]
    assert counts == sorted(counts)
    time.sleep(0.001)
    assert recording.counter() > counts[-1]


def test_words_are_those_of_the_buffer() -> None:
    memory = bytearray(32)
    words = recording.words(memory)
    words[1] = 1 << 63 | 7
    assert memory[8:16] == (1 << 63 | 7).to_bytes(8, "little")
    assert list(words) == [0, 1 << 63 | 7, 0, 0]


@pytest.mark.parametrize(
    ("what", "code"),
    [(a_function, a_function.__code__), (AClass().method, AClass.method.__code__), (AClass, AClass)],
    ids=["function", "method", "type"],
)
def test_code_stands_for_what_runs(what: Any, code: object) -> None:
    assert recording.address_of_code(what) == id(code)


@pytest.mark.parametrize("what", [AClass(), None], ids=["object", "None"])
def test_other_things_have_no_code(what: object) -> None:
    assert recording.address_of_code(what) == 0


def test_cpu_time_is_of_this_thread() -> None:
    before = recording.thread_cpu_ns()
    assert before <= recording.thread_cpu_ns() <= time.thread_time_ns()
