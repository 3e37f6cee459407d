"""Labels: numbers for the names in a recording. The names are written once, behind the ring.

Thread: any; mostly the loop's own.
"""

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

from loopcore_plugins.recorder.layout import OTHER_LABEL, Word
from loopcore_plugins.trace.naming import describe_callback

NAMES_SHARE = 2
"""Names of tasks and messages may use 1/NAMES_SHARE of the labels and of their bytes: a program can make any number."""
LONGEST_NAME = 200
MOST_KEPT = 20_000
"""Code objects and classes that are kept alive, because their addresses stand for them."""
ENTRY_POINTS = ("data_received", "buffer_updated", "datagram_received", "connection_made")
"""The methods of a protocol whose place is taken for that of the class."""


class Labels:
    """The labels of one recording, written into `memory` as `layout` says; `set_word` sets a word of its header."""

    def __init__(self, memory: Any, set_word: Callable[[int, int], object]) -> None:
        self._memory = memory
        self._set_word = set_word
        view = memoryview(memory)
        words = view.cast("B").cast("Q")
        self._at, self._size = words[Word.LABELS_AT], words[Word.LABELS_SIZE]
        words.release()
        view.release()
        self._used = 0
        self._count = 0
        self._texts: dict[str, int] = {}
        self._by_identity: dict[int, int] = {}
        self.keeps: bool = True
        """Whether code that gets a label is kept alive. A program that makes functions all the time has many."""
        self._kept: list[object] = []  # what `_by_identity` refers to, so that no other object gets the identity
        self.dropped = 0
        """Texts that found no room."""

    def of_code(self, code: Any) -> int:
        """Return the label of a code object or of a type."""
        label = self._by_identity.get(id(code))
        if label is None:
            label = self._add(*_place_of(code))
            if self.keeps:
                self._kept.append(code)
                self._by_identity[id(code)] = label
                self.keeps = len(self._kept) < MOST_KEPT
        return label

    def of_line(self, function: str, file: str, line: int) -> int:
        """Return the label of a line of code."""
        return self._add(function, file, line)

    def of(self, what: Any) -> int:
        """Return the label of code, a type, or a callback of any kind."""
        try:
            return self._of(what)
        except Exception:  # a proxy that raises on every attribute access; it may be callable all the same
            return OTHER_LABEL

    def _of(self, what: Any) -> int:
        inner = what
        while isinstance(inner, functools.partial):
            in_context = getattr(inner.func, "__name__", "") == "run" and inner.args  # asyncio.to_thread
            inner = inner.args[0] if in_context and callable(inner.args[0]) else inner.func
        if isinstance(inner, (CodeType, type)):
            return self.of_code(inner)
        code = getattr(getattr(inner, "__func__", inner), "__code__", None)
        return self.of_code(code) if isinstance(code, CodeType) else self._add(describe_callback(inner), "", 0)

    def of_name(self, name: str) -> int:
        """Return the label of a task's name; 0 if there are too many names."""
        label = self.of_text(name)
        return 0 if label == OTHER_LABEL else label

    def of_text(self, text: str) -> int:
        """Return the label of any text; OTHER_LABEL if there are too many names and texts."""
        return self._add(text[:LONGEST_NAME], "", 0, NAMES_SHARE)

    def text(self, label: int) -> str:
        """Return the name of a label, and its place if it has one."""
        texts = [*self._texts.items()]  # copied at once: the loop goes on adding to it
        name, file, line = next((text for text, known in texts if known == label), "?\n\n0").split("\n")
        return f"{name} ({file}:{line})" if file else name

    def _add(self, name: str, file: str, line: int, share: int = 1) -> int:
        text = f"{_one_line(name)}\n{_one_line(file)}\n{line}"
        label = self._texts.get(text)
        if label is not None:
            return label
        data = text.encode(errors="backslashreplace")
        entry = len(data).to_bytes(4, "little") + data
        size = len(entry)
        # A finalizer or a signal handler may add a label, but not between these: nothing is called.
        begin = self._used
        if begin + size > self._size // share or self._count + 1 >= OTHER_LABEL // share:
            self.dropped += 1
            return OTHER_LABEL
        self._used = begin + size
        self._count += 1
        number = self._count
        self._memory[self._at + begin : self._at + begin + size] = entry
        self._set_word(Word.LABELS_USED, self._used)
        self._texts[text] = number
        return number


def _one_line(text: str) -> str:
    return text[-LONGEST_NAME:].replace("\n", " ").replace("\r", " ")


def _place_of(code: Any) -> tuple[str, str, int]:
    if isinstance(code, CodeType):
        return code.co_qualname, code.co_filename, code.co_firstlineno
    for name in ENTRY_POINTS:
        method = getattr(code, name, None)
        inner = getattr(method, "__code__", None)
        if isinstance(inner, CodeType):
            return f"{code.__qualname__}.{name}", inner.co_filename, inner.co_firstlineno
    return f"{code.__module__}.{code.__qualname__}", "", 0
