"""The page on hooks, written from their specs.

    python -m tests.docs.hooks_page

`loopcore/hooks/specs.py` is the manual of the hooks; docs/reference/hooks.md shows it to readers of the manual. The
comments `# Cold`, `# Tick` ... of that file are the sections. The theory of observers comes from `observer.py`.
"""

import ast
import inspect
from pathlib import Path

from loopcore.hooks import observer
from loopcore.hooks import specs as hookspecs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "hooks.md"

HEAD = """# Hooks

<!-- Written from core/loopcore/hooks/specs.py by `python -m tests.docs.hooks_page`; what is changed here is lost. -->

{theory}

[Write a plugin](../howto/write-a-plugin.md) is the guide. The settings describe
[how plugins are named and take options](environment.md#plugins-and-their-options). The calls have the same order and
the same arguments on every backend, compiled or not: the conformance kit records one program on two backends and
compares.

```{{diagram}} hooks
All hooks without their prefix `loopcore_`: cold hooks, the groups in which hot hooks are watched, and policies.
```
"""

NOTES = {
    "Observers": "\n" + inspect.cleandoc(observer.__doc__ or "").partition("\n\n")[2] + "\n",
    "Hot: transports": """
`transport.get_extra_info("loopcore.bytes")` is a pair: the bytes that the transport has received and sent so far, on
the wire. For a TLS transport they are those of the socket below; a child process's transport counts nothing, because
its pipes do. `bytes_received` and `bytes_sent` of `loop.counters()` are the sums over all transports of a loop, always
kept.
""",
    "Hot: jobs of executors": """
A `job` has these attributes, which a plugin may only read. Times are in ns of `time.perf_counter_ns`, 0 until known.

| attribute      | meaning                                                                                      |
|----------------|----------------------------------------------------------------------------------------------|
| `function`     | the function; for `asyncio.to_thread` a `functools.partial`                                  |
| `pool`         | `default`; `resolver` for name look-ups, which have separate threads; `repr` of any other executor |
| `submitted_ns` | when it was submitted to the executor                                                        |
| `started_ns`   | when a thread began to run it                                                                |
| `finished_ns`  | when it ended                                                                                |
| `thread_id`    | `threading.get_ident()` of that thread; None before it begins, and outside a thread pool     |
| `error`        | the exception of the function, or the reason why it did not run; None on success             |
""",
}


def sections() -> list[tuple[str, list[ast.FunctionDef]]]:
    """Return the sections of hookspecs.py, each with its hooks, in order."""
    source = inspect.getsource(hookspecs)
    starts = {node.lineno: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    found: list[tuple[str, list[ast.FunctionDef]]] = []
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("# "):
            found.append((line[2:], []))
        elif number in starts:
            found[-1][1].append(starts[number])
    return found


def describe(hook: ast.FunctionDef) -> str:
    """Return the entry of one hook."""
    arguments = ", ".join(f"{argument.arg}: {_text(argument.annotation)}" for argument in hook.args.args)
    signature = f"{hook.name}({arguments}) -> {_text(hook.returns)}"
    return f"### {hook.name}\n\n    {signature}\n\n{ast.get_docstring(hook)}\n"


def _text(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant):
        return str(annotation.value)
    return "" if annotation is None else ast.unparse(annotation)


def page() -> str:
    """Return the whole page."""
    parts = [HEAD.format(theory=inspect.cleandoc(hookspecs.__doc__ or "").partition("\n\n")[2])]
    for title, hooks in sections():
        parts.append(f"## {title}\n{NOTES.get(title, '')}")
        parts += [describe(hook) for hook in hooks]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
