"""Each rule notices a sample that breaks it: a check that cannot fail is no check."""

import ast
import asyncio
import sys
import types
from pathlib import Path

import pytest

from tests.architecture import classes, rules


def sample(text: str, module: str = "sample") -> rules.Source:
    return rules.Source(Path(f"{module}.py"), module, text, ast.parse(text))


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch):
    """Make the classes of a sample importable, as those of the package are."""

    def load(text: str) -> rules.Source:
        source = sample(text, "architecture_sample")
        module = types.ModuleType(source.module)
        exec(compile(source.tree, "sample", "exec"), module.__dict__)
        monkeypatch.setitem(sys.modules, source.module, module)
        return source

    return load


def test_type_that_is_looked_up_by_name_is_noticed():
    source = sample("from loopcore.kernel.handle import Handle\nhit = type(x) is Handle\n")
    assert rules.types_by_name(source, "cimport cython\n")
    assert not rules.types_by_name(source, "from loopcore.kernel.handle cimport Handle, TimerHandle\n")


def test_a_function_that_tells_the_builds_apart_is_noticed():
    assert rules.builds_told_apart([sample("def f():\n    if not cython.compiled:\n        g()\n")])
    assert not rules.builds_told_apart(
        [sample("if cython.compiled:\n    from a import b\nelse:\n    from c import b\n")]
    )


def test_c_in_a_header_is_noticed():
    assert rules.c_in_headers({Path("a.pxd"): 'cdef extern from *:\n    """\n    int a;\n    """\n'})
    assert not rules.c_in_headers({Path("a.pxd"): 'cdef extern from "a.h":\n    int a\n'})


def test_missing_docstring_is_noticed():
    assert rules.missing_docstrings([sample("x = 1\n")])
    assert not rules.missing_docstrings([sample('"""What this is."""\n')])


def test_unfinished_work_is_noticed():
    assert rules.unfinished([sample("x = 1  # TO" + "DO: more\n")])
    assert not rules.unfinished([sample("x = 'TO" + "DO'\n")])


@pytest.mark.parametrize(
    "text",
    [
        "import loopcore_backends.epoll",
        "def f():\n    from loopcore_backends import epoll",
        "import a, loopcore_plugins",
    ],
)
def test_import_of_what_is_plugged_in_is_noticed(text: str):
    assert rules.forbidden_imports([sample(text)], ("loopcore_backends", "loopcore_plugins"))


def test_relative_import_is_noticed():
    assert rules.relative_imports([sample("from . import x")])


def test_index_from_the_end_is_noticed():
    assert rules.negative_indices([sample("x = items[-1]")])
    assert not rules.negative_indices([sample("x = items[1] + items[n - 1]")])


@pytest.mark.parametrize(
    "text",
    ["", "DIRECTIVES: dict = {}", "DIRECTIVES: dict = {'boundscheck': True, 'nonecheck': False}"],
    ids=["nothing", "default", "off"],
)
def test_check_that_is_not_on_is_noticed(text: str):
    assert "nonecheck" in rules.checks_that_are_not_on(sample(text))


UNCHECKED = """
@cython.nonecheck(False)
def f(x): return x.y

class A:
    @cython.boundscheck(False)
    def g(self, x): return x[1]
"""


@pytest.mark.parametrize(
    ("header", "complaints"),
    [
        ("cdef object f(B x) noexcept\ncdef class A:\n    cdef inline object g(self, list x)\n", 0),
        ("cdef object f(B x)\ncdef class A:\n    cpdef object g(self, list x)\n", 1),
        ("cdef class A:\n    cdef object g(self, list x)\ncdef object f(B x)\n", 0),
        ("cdef class A:\n    cdef object f(self, B x)\ncdef object g(list x)\n", 2),
        ("", 2),
    ],
    ids=["of C", "cpdef", "of C, in another order", "of another class", "not declared"],
)
def test_unchecked_function_of_python_is_noticed(header: str, complaints: int):
    assert len(rules.unchecked_functions(sample(UNCHECKED), header)) == complaints


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("@cython.cfunc\n@cython.nonecheck(False)\ndef f(x): return x.y\n", 0),
        ("@cython.ccall\n@cython.nonecheck(False)\ndef f(x): return x.y\n", 1),
        ("# cython: boundscheck=False\n", 1),
        ("def f(x):\n    with cython.nonecheck(False):\n        return x.y\n", 1),
        ("@cython.nonecheck(False)\nclass A:\n    def f(self): pass\n", 1),
        ("@cython.nonecheck(True)\ndef f(x): return x.y\n", 0),
    ],
    ids=["cfunc", "ccall", "module", "block", "class", "on"],
)
def test_check_that_is_off_for_python_is_noticed(text: str, complaints: int):
    assert len(rules.unchecked_functions(sample(text), "")) == complaints


@pytest.mark.parametrize(
    ("line", "complaints"),
    [
        ("cdef object f(B x)", 0),
        ("cdef inline bint f(B x) noexcept:", 0),
        ("cpdef object f(B x)", 1),
        ("cdef class A:", 1),
    ],
)
def test_unchecked_declaration_is_noticed(line: str, complaints: int):
    header = f"@cython.nonecheck(False)\n@cython.locals(y=int)\n{line}\n    @cython.locals(y=int)\n"
    assert len(rules.unchecked_declarations(header, Path("sample.pxd"))) == complaints
    assert rules.unchecked_declarations(f"# cython: nonecheck=False\n{line}\n", Path("sample.pxd"))


@pytest.mark.parametrize(
    "body",
    [
        "x = 1; return self.part.f(x)",
        "return self.part.f(x) if x else None",
        "return self.part.f(x or 1)",
        "if x: return self.part.f(x)",
        "self.part.f(x); self.part.g(x); self.part.h(x)",
        "self.x = 1; self.part.f(x)",
        "return",
        "return [self.part.f(y) for y in x]",
        "return got if type(got := self.part.f(x)) is SocketFuture else got",
        "return await got if type(got := self.part.f(x or 1)) is SocketFuture else got",
    ],
)
def test_logic_in_a_delegation_is_noticed(body: str):
    text = f"class Loop:\n    def f(self, x):\n        {body}\n"
    assert rules.delegations_with_logic(ast.parse(text), "Loop", frozenset())
    assert not rules.delegations_with_logic(ast.parse(text), "Loop", frozenset({"f"}))


@pytest.mark.parametrize(
    "body",
    [
        "return self.part.f(x)",
        "'''Doc.'''; self.part.f(x, y=1)",
        "return await self.part.f(x)",
        "self.check(); self.part.f(x)",
        "return await got if type(got := self.part.f(x)) is SocketFuture else got",
    ],
)
def test_plain_delegation_passes(body: str):
    text = f"class Loop:\n    async def f(self, x):\n        {body}\n"
    assert not rules.delegations_with_logic(ast.parse(text), "Loop", frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def f(self): self.g()\nclass B(A):\n    def g(self): pass\n",
        "class A:\n    def f(self): self.g()\n    def g(self): raise NotImplementedError\n",
        "import asyncio\nclass A(asyncio.AbstractEventLoop):\n    def f(self): self.call_soon(print)\n",
    ],
    ids=["answered by a subclass", "answered by a stub", "answered by asyncio's abstract class"],
)
def test_upward_call_is_noticed(importable, text: str):
    assert len(classes.unresolved_calls([importable(text)])) == 1


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def g(self): pass\nclass B(A):\n    def f(self): self.g()\n",
        "class A:\n    __slots__ = ('g',)\n    def f(self): self.g()\n",
        "class A:\n    def __init__(self, g): self.g = g\n    def f(self): self.g()\n",
        "class A(dict):\n    def f(self): self.update({})\n",
    ],
    ids=["base", "slot", "attribute", "foreign base"],
)
def test_answered_call_passes(importable, text: str):
    assert classes.unresolved_calls([importable(text)]) == []


def test_the_rule_finds_asyncios_own_upward_calls():
    """The reason for the rule: BaseEventLoop calls what only its subclasses have."""
    path = Path(asyncio.base_events.__file__)
    found = classes.unresolved_calls([rules.read_source(path, "asyncio.base_events")])
    assert any("_make_socket_transport" in complaint for complaint in found)
    assert len(found) >= 10


HEADER = """
cimport cython

cdef class A:
    cdef public long x, y
    cdef object z  # why
    cdef dict _table

    @cython.locals(i=int)
    cpdef object f(self, int i)
    cdef inline bint g(self)
"""
BODY = "    def f(self, i): pass\n    def g(self): pass\n"


@pytest.mark.parametrize(
    ("slots", "body", "complaints"),
    [
        ("('x', 'y', 'z', '_table')", BODY, 0),
        ("('x', 'z', 'y', '_table')", BODY, 1),
        ("('x', 'y', 'z')", BODY, 1),
        ("('x', 'y', 'z', '_table')", "    def f(self, i): pass\n", 1),
    ],
    ids=["same", "other order", "one missing", "method missing"],
)
def test_header_that_differs_is_noticed(tmp_path: Path, slots: str, body: str, complaints: int):
    header = tmp_path / "sample.pxd"
    header.write_text(HEADER)
    source = sample(f"class A:\n    __slots__ = {slots}\n{body}")
    assert len(classes.header_mismatches(source, header)) == complaints


def test_header_of_a_class_that_is_gone_is_noticed(tmp_path: Path):
    header = tmp_path / "sample.pxd"
    header.write_text(HEADER)
    assert classes.header_mismatches(sample("x = 1"), header)
