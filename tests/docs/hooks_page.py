"""The page on hooks, written from their specs.

    python -m tests.docs.hooks_page

`loopcore/hookspecs.py` is the manual of the hooks; docs/reference/hooks.md shows it to those who do not read code. The
comments `# Cold`, `# Tick` ... of that file are the sections.
"""

import ast
import inspect
from pathlib import Path

from loopcore import hookspecs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "hooks.md"

HEAD = """# Hooks

<!-- Written from core/loopcore/hookspecs.py by `python -m tests.docs.hooks_page`; what is changed here is lost. -->

{theory}

[Write a plugin](../howto/write-a-plugin.md) is the guide; how plugins are named and given options is told
[with the settings](environment.md#plugins-and-their-options). The order of calls, and what they say, is the same on
every backend, compiled or not: the conformance kit records one program on two backends and compares.

```{{diagram}} hooks
All hooks without their prefix `loopcore_`: cold ones, the groups by which hot ones are watched, and policies.
```
"""

NOTES = {
    "Hot: transports": """
`transport.get_extra_info("loopcore.bytes")` is a pair: how many bytes the transport has received and sent so far, on
the wire; of a TLS transport those of the socket below, of a child process's transport nothing (its pipes count).
`loop.bytes_received` and `loop.bytes_sent` are the sums over all transports of a loop. They are always there.
""",
    "Hot: jobs of executors": """
A `job` has these attributes, which a plugin only reads. Times are in ns of `time.perf_counter_ns`, 0 until they come.

| attribute      | what it is                                                                                   |
|----------------|----------------------------------------------------------------------------------------------|
| `function`     | what is called; of `asyncio.to_thread` a `functools.partial`                                 |
| `pool`         | `default`; `resolver` for look-ups of names, in threads of their own; the `repr` of another one |
| `submitted_ns` | when it was given to the executor                                                            |
| `started_ns`   | when a thread began to run it                                                                |
| `finished_ns`  | when it ended                                                                                |
| `thread_id`    | `threading.get_ident()` of that thread; None until it began, and if it is not in a thread pool |
| `error`        | what the function raised, or why it did not run; None if all is well                         |
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
