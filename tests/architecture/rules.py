"""The rules of the house, as functions that take sources and return complaints, one line each.

They read text and syntax trees, so they see the same under the pure and the compiled build. What they
are applied to is in `test_rules.py`; that they would notice, in `test_teeth.py`.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "loopcore": ROOT / "core" / "loopcore",
    "loopcore_backends": ROOT / "backends" / "loopcore_backends",
    "loopcore_plugins": ROOT / "plugins" / "loopcore_plugins",
    "loopcore_bench": ROOT / "core" / "loopcore_bench",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Spelled in two parts, so that this file obeys its own rule.
UNFINISHED = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")))


class Source(NamedTuple):
    """A Python file: where it lies, its dotted name, its text and its tree."""

    path: Path
    module: str
    text: str
    tree: ast.Module


def read_source(path: Path, module: str = "") -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(path, module or path.stem, text, ast.parse(text, str(path)))


def package_sources() -> Iterator[Source]:
    """Every module of the packages."""
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield read_source(path, ".".join((package, *parts)).removesuffix(".__init__"))


def other_sources() -> Iterator[Source]:
    """Tests, examples and the build hook: what is Python but not shipped."""
    yield read_source(ROOT / "core" / "build_ext.py")
    for folder in ("tests", "examples", "backends/template", "plugins/template"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield read_source(path)


def missing_docstrings(sources: Iterable[Source]) -> list[str]:
    return [f"{source.path}: no module docstring" for source in sources if not ast.get_docstring(source.tree)]


def unfinished(sources: Iterable[Source]) -> list[str]:
    """Comments that announce work instead of doing it."""
    complaints = []
    for source in sources:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT and UNFINISHED.search(token.string):
                complaints.append(f"{source.path}:{token.start[0]}: {token.string}")
    return complaints


def imported_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "."


def forbidden_imports(sources: Iterable[Source], forbidden: tuple[str, ...]) -> list[str]:
    """Imports of `forbidden` packages, also those inside functions and by name."""
    return [
        f"{source.path}:{line}: imports {name}"
        for source in sources
        for line, name in imported_names(source.tree)
        if name.split(".")[0] in forbidden
    ]


def relative_imports(sources: Iterable[Source]) -> list[str]:
    return [
        f"{source.path}:{node.lineno}: a relative import"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def negative_indices(sources: Iterable[Source]) -> list[str]:
    """Literal negative subscripts. Compiled without `wraparound`, `items[-1]` reads before the list."""
    complaints = []
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.UnaryOp):
                continue
            if isinstance(node.slice.op, ast.USub) and isinstance(node.slice.operand, ast.Constant):
                complaints.append(f"{source.path}:{node.lineno}: {ast.unparse(node)} in a compiled module")
    return complaints


def builds_told_apart(sources: Iterable[Source]) -> list[str]:
    """Functions that ask whether they are compiled: what differs is chosen at a module's head."""
    return [
        f"{source.path}:{node.lineno}: {function.name} asks for {ast.unparse(node)}"
        for source in sources
        for function in ast.walk(source.tree)
        if isinstance(function, FUNCTIONS)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "cython.compiled"
    ]


def c_in_headers(headers: dict[Path, str]) -> list[str]:
    """Headers that contain C; it belongs in the folders `_native`, and is counted there."""
    return [f"{path}: C in a header" for path, text in headers.items() if re.search(r"cdef extern from \*", text)]


def types_by_name(source: Source, header: str) -> list[str]:
    """Compiled classes that a `type(x) is C` compares with by name, since the header does not cimport them.

    CPython 3.12 and newer do not remember where a module's names are: each look-up is a hundred instructions.
    """
    known = {word for line in re.findall(r"cimport (.*)", header) for word in re.findall(r"\w+", line)}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.module and is_compiled(node.module)
        for alias in node.names
    }
    return [
        f"{source.path}:{node.lineno}: {right.id} is not cimported"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type(")
        for right in node.comparators
        if isinstance(right, ast.Name) and right.id in imported - known
    ]


def is_compiled(module: str) -> bool:
    """Whether `module`, of one of the packages, has a header."""
    package, *rest = module.split(".")
    return package in PACKAGES and PACKAGES[package].joinpath(*rest).with_suffix(".pxd").exists()


CHECKS = ("nonecheck", "boundscheck")
"""Cython's checks: for None before an attribute is read, and for indices out of range."""
CHECK_OFF = re.compile(rf"\b(?:{'|'.join(CHECKS)})\b\s*[(=]\s*False")
C_CLASS = re.compile(r"cdef class (\w+)")
C_FUNCTION = re.compile(r"cdef (?!class\b)[^()=]*?(\w+)\(")


def checks_that_are_not_on(source: Source) -> list[str]:
    """Return the checks that the `DIRECTIVES` of the build hook do not switch on."""
    for node in source.tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DIRECTIVES" and node.value is not None:
            directives = ast.literal_eval(node.value)
            return [check for check in CHECKS if directives.get(check) is not True]
    return list(CHECKS)


def unchecked_functions(source: Source, header: str) -> list[str]:
    """Lines of a module that switch a check off, other than decorators of C functions.

    A C function is declared `cdef` in the header or is decorated with `cython.cfunc`: only compiled code calls it.
    """
    declared = set(c_functions(header))
    allowed: set[int] = set()
    for owner in (source.tree, *(node for node in source.tree.body if isinstance(node, ast.ClassDef))):
        for node in owner.body:
            if isinstance(node, ast.FunctionDef):
                marks = {ast.unparse(mark): mark.lineno for mark in node.decorator_list}
                if "cython.cfunc" in marks or (getattr(owner, "name", ""), node.name) in declared:
                    allowed.update(marks.values())
    return [
        f"{source.path}:{number}: {line.strip()}"
        for number, line in enumerate(source.text.splitlines(), 1)
        if CHECK_OFF.search(line) and number not in allowed
    ]


def c_functions(header: str) -> Iterator[tuple[str, str]]:
    """The class, or an empty string, and the name of each function that a header declares `cdef`."""
    owner = ""
    for line in header.splitlines():
        if line and not line[0].isspace():
            match = C_CLASS.match(line)
            owner = match[1] if match else ""
        if match := C_FUNCTION.match(line.strip()):
            yield owner, match[1]


def unchecked_declarations(header: str, path: Path) -> list[str]:
    """Lines of a header that switch a check off, other than decorators of C functions."""
    complaints, pending = [], []
    for number, line in enumerate(header.splitlines(), 1):
        if CHECK_OFF.search(line):
            pending.append(f"{path}:{number}: {line.strip()}")
        if not line.strip().startswith("@"):
            if not C_FUNCTION.match(line.strip()):
                complaints += pending
            pending = []
    return complaints


LOGIC = (ast.IfExp, ast.BoolOp, ast.Compare, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def delegations_with_logic(tree: ast.AST, class_name: str, own: frozenset[str]) -> list[str]:
    """The public methods of `class_name`, but for its `own`, that do more than hand their arguments on."""
    complaints = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name != class_name:
            continue
        for method in node.body:
            if not isinstance(method, FUNCTIONS) or method.name.startswith("_") or method.name in own:
                continue
            if not is_delegation(method):
                complaints.append(f"line {method.lineno}: {class_name}.{method.name} does more than delegate")
    return complaints


def is_delegation(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body is one call or attribute, without any choice in it.

    One call may go before it, a guard (`self._check_closed()`) or a hook; a docstring does not count. What a call
    returns may be awaited only if it is a SocketFuture: `return await got if type(got := CALL) is SocketFuture else
    got`.
    """
    body = method.body[1:] if ast.get_docstring(method) else method.body
    if not 1 <= len(body) <= 2 or any(not isinstance(statement, (ast.Return, ast.Expr)) for statement in body):
        return False
    values = [statement.value for statement in body if isinstance(statement, (ast.Return, ast.Expr))]
    values = [value.value if isinstance(value, ast.Await) else _tried(value) for value in values]
    if any(isinstance(node, LOGIC) for value in values if value is not None for node in ast.walk(value)):
        return False
    if len(values) == 1 and isinstance(values[0], ast.Attribute):
        return True
    return all(isinstance(value, ast.Call) for value in values)


def _tried(value: ast.expr | None) -> ast.expr | None:
    """Return CALL of `await got if type(got := CALL) is SocketFuture else got`, any other node unchanged."""
    calls = [node.value for node in ast.walk(value) if isinstance(node, ast.NamedExpr)] if value is not None else []
    if len(calls) != 1:
        return value
    form = f"await got if type((got := {ast.unparse(calls[0])})) is SocketFuture else got"
    return calls[0] if value is not None and ast.unparse(value) == form else value
