"""Rules about classes: every call through `self` ends somewhere, and `.pxd` files declare what the `.py` has.

A call through `self` that only a subclass answers makes two files one: asyncio's BaseEventLoop has ten. So
each `self.name(...)` must be a method, a slot or an attribute of the class or of a base; a stub that only
raises NotImplementedError is no answer, and neither is one of asyncio's abstract classes.
"""

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.architecture.rules import FUNCTIONS, Source

ABSTRACT = re.compile(r"asyncio\.(events|protocols|transports)")


def self_name(method: ast.AST) -> str | None:
    """The name that a method calls its instance by; None for static methods."""
    if not isinstance(method, FUNCTIONS) or not method.args.args:
        return None
    if any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in method.decorator_list):
        return None
    return method.args.args[0].arg


def is_stub(method: ast.AST) -> bool:
    """Whether the body only raises NotImplementedError."""
    return (
        isinstance(method, FUNCTIONS)
        and isinstance(method.body[-1], ast.Raise)
        and "NotImplementedError" in ast.unparse(method.body[-1])
        and len(method.body) <= 2
    )


def self_calls(tree: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Line and name of each `self.name(...)` in a class."""
    for method in tree.body:
        name = self_name(method)
        for node in ast.walk(method):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id == name:
                yield node.lineno, node.func.attr


def slots_of(tree: ast.ClassDef) -> list[str] | None:
    """The class's `__slots__`, in order; None if it has none."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__slots__" for target in targets):
            value = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            return [value] if isinstance(value, str) else list(value)
    return None


def own_names(tree: ast.ClassDef) -> set[str]:
    """What a class itself provides: methods that are no stubs, class attributes, slots, what is set on self."""
    names = set(slots_of(tree) or ())
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            if not is_stub(node):
                names.add(node.name)
            names |= assigned_on(node, self_name(node))
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def assigned_on(method: ast.AST, name: str | None) -> set[str]:
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def foreign_names(base: type) -> set[str]:
    """What a base that is not ours provides; nothing if it is one of asyncio's abstract classes."""
    return set() if ABSTRACT.match(base.__module__) and base is not object else set(vars(base))


def imported(source: Source) -> ModuleType | None:
    """Return the module; None if it says that it belongs to another platform, or which packages to install for it."""
    try:
        return importlib.import_module(source.module)
    except ImportError as exc:
        if "if sys.platform != " in source.text or ": python -m pip install" in str(exc):
            return None
        raise


def unresolved_calls(sources: Iterable[Source]) -> list[str]:
    """Calls through `self` that neither the class nor a base answers."""
    everything = list(sources)
    trees = {
        f"{source.module}.{node.name}": node
        for source in everything
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }
    complaints = []
    for source in everything:
        module = imported(source)
        for node in source.tree.body if module is not None else ():
            if not isinstance(node, ast.ClassDef):
                continue
            provided: set[str] = set()
            for base in getattr(module, node.name).__mro__:
                tree = trees.get(f"{base.__module__}.{base.__name__}")
                provided |= own_names(tree) if tree is not None else foreign_names(base)
            complaints += [
                f"{source.path}:{line}: {node.name} calls self.{name}, which it does not have"
                for line, name in self_calls(node)
                if name not in provided
            ]
    return complaints


DICT_POINTER = "_instance_dict"
"""What a `.pxd` declares for `"__dict__"` among the slots (core/loopcore/_native/attributes.h)."""


class Declared(NamedTuple):
    """What a `.pxd` says of a class."""

    attributes: list[str]
    methods: list[str]


CLASS = re.compile(r"cdef class (\w+)")
ATTRIBUTE = re.compile(r"cdef (?:public |readonly )?[^()]*?(\w+(?:\s*,\s*\w+)*)$")
METHOD = re.compile(r"(?:cdef|cpdef) [^()]*?(\w+)\(")


def declarations(header: str) -> dict[str, Declared]:
    """Read the classes of a `.pxd`: one attribute, or several of one type, to a line."""
    found: dict[str, Declared] = {}
    current: Declared | None = None
    for raw in header.splitlines():
        line = raw.split("#")[0].rstrip()
        if not line:
            continue
        if not line.startswith(" "):
            match = CLASS.match(line)
            current = found.setdefault(match[1], Declared([], [])) if match else None
        elif current is not None:
            text = line.strip()
            method, attribute = METHOD.match(text), ATTRIBUTE.match(text)
            if method:
                current.methods.append(method[1])
            elif attribute:
                names = [name.strip() for name in attribute[1].split(",")]
                current.attributes.extend("__dict__" if name == DICT_POINTER else name for name in names)
    return found


def header_mismatches(source: Source, header: Path) -> list[str]:
    """Where `header` and the classes of `source` differ: attributes against `__slots__`, in order, and methods."""
    declared = declarations(header.read_text(encoding="utf-8"))
    classes = {node.name: node for node in source.tree.body if isinstance(node, ast.ClassDef)}
    complaints = [f"{header}: {name} is not in {source.path.name}" for name in declared.keys() - classes.keys()]
    for name in declared.keys() & classes.keys():
        slots = slots_of(classes[name])
        if (slots or []) != declared[name].attributes:
            complaints.append(f"{header}: {name} declares {declared[name].attributes}, __slots__ are {slots}")
        methods = {node.name for node in classes[name].body if isinstance(node, FUNCTIONS)}
        complaints += [f"{header}: {name}.{m} is not in the .py" for m in declared[name].methods if m not in methods]
    return sorted(complaints)
