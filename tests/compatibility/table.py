"""Writes docs/reference/compatibility.md: every method and parameter, the tests that prove it, and what differs.

    python -m tests.compatibility.table

To be run in the repository's root, on any Python. Everything comes from the surface of asyncio and the marks of the
tests; test_table.py checks that the page is the one that they give, and that no entry is without a test.
"""

from collections import defaultdict
from pathlib import Path

from tests.compatibility.marks import Evidence, collected
from tests.compatibility.surface import OPERATORS, Entry, surface

PAGE = Path("docs/reference/compatibility.md")

INTRODUCTION = """\
# Compatibility with asyncio

<!-- Written by tests/compatibility/table.py; edits are lost. -->

Every public method and parameter of asyncio's loop, its futures, tasks, handles, servers and transports, read from
asyncio itself. Each has a test that runs on every backend and, as the oracle, on asyncio's own loop; the test fails if
it does not call the methods for which it is listed. Required parameters are in the row of their method, the others
below it.

*same* means that the tests see no difference. *differs* is explained in [what differs](#what-differs), where each
difference has a separate test. The second column is the first Python whose asyncio has the method or
parameter; loopcore has it on every Python. [CPython's own tests of asyncio](cpython-tests.md) also run on loopcore.
"""

LOOP = {
    "Running and stopping": (
        "run_forever run_until_complete stop is_running close is_closed shutdown_asyncgens shutdown_default_executor"
    ),
    "Callbacks, timers and time": "call_soon call_soon_threadsafe call_later call_at time",
    "Futures and tasks": "create_future create_task set_task_factory get_task_factory",
    "Connections": "create_connection create_unix_connection create_datagram_endpoint start_tls sendfile",
    "Servers": "create_server create_unix_server connect_accepted_socket",
    "Pipes and subprocesses": "connect_read_pipe connect_write_pipe subprocess_exec subprocess_shell",
    "Descriptors": "add_reader remove_reader add_writer remove_writer",
    "Sockets": (
        "sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into sock_sendall sock_sendto sock_connect sock_accept "
        "sock_sendfile"
    ),
    "Names": "getaddrinfo getnameinfo",
    "Signals": "add_signal_handler remove_signal_handler",
    "Threads": "run_in_executor set_default_executor",
    "Errors and debug mode": (
        "set_exception_handler get_exception_handler default_exception_handler call_exception_handler "
        "get_debug set_debug slow_callback_duration"
    ),
}
"""The methods of the loop by subject, in the order of the page."""

OTHERS = {
    "Future": "Future",
    "Task": "Task",
    "Handle": "Handle",
    "TimerHandle": "TimerHandle",
    "Server": "Server",
    "Transport": "Transport, of sockets",
    "SSLTransport": "Transport, of TLS connections",
    "DatagramTransport": "DatagramTransport",
    "ReadPipeTransport": "ReadTransport, of pipes",
    "WritePipeTransport": "WriteTransport, of pipes",
    "SubprocessTransport": "SubprocessTransport",
}
"""The other owners of methods, with their headings, in the order of the page."""

_SEEN = "tests/unit/test_interpreter_tools.py::test_tools_of_asyncio_tell_the_same"
_FUTURE = "tests/unit/test_interpreter_tools.py::test_call_graph_of_a_future"
_SAMPLED = "tests/unit/test_interpreter_tools.py::test_sampling_profiler_sees_the_same_tasks"
TOOLS = (
    ("`asyncio.print_call_graph`, `format_call_graph`, `capture_call_graph`", "3.14", "same", _SEEN),
    ("`asyncio.capture_call_graph` of a future", "3.14", "loopcore's tasks that await it", _FUTURE),
    (
        "`asyncio.future_add_to_awaited_by`, `future_discard_from_awaited_by`",
        "3.14",
        "same for tasks, no effect on a future",
        _FUTURE,
    ),
    ("`python -m asyncio ps`, `python -m asyncio pstree`", "3.14", "same", _SEEN),
    ("`python -m profiling.sampling --async-aware`", "3.15", "same", _SAMPLED),
)
"""What reads the tasks of a program from outside, with the first Python that has it, and a test on both loops."""


def page(evidence: list[Evidence]) -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, differences(evidence)]
    for title, names in LOOP.items():
        parts.append(
            section(f"EventLoop: {title[0].lower()}{title[1:]}", [f"EventLoop.{n}" for n in names.split()], evidence)
        )
    for owner, title in OTHERS.items():
        methods = dict.fromkeys(method for method, _ in surface() if method.split(".")[0] == owner)
        parts.append(section(title, sorted(methods), evidence))
    rows: list[tuple[str, ...]] = [(*row[:3], _link(row[3])) for row in TOOLS]
    parts.append("## The call graph, and tools that read it\n\n" + _table(("tool", "Python", "asyncio", "test"), rows))
    return "\n".join(parts)


def listed() -> set[str]:
    """The methods that have a place on the page."""
    return {f"EventLoop.{name}" for names in LOOP.values() for name in names.split()} | {
        method for method, _ in surface() if method.split(".")[0] in OTHERS
    }


def differences(evidence: list[Evidence]) -> str:
    """Return the section of what differs, in the order of the methods' names."""
    rows = [(", ".join(_shown(entries)), why, _link(test)) for test, entries, why, _ in sorted(evidence) if why]
    return "## What differs\n\n" + _table(("method", "difference", "test"), sorted(rows))


def _shown(entries: tuple[tuple[str, str], ...]) -> list[str]:
    """Write entries for readers: the parameters in the parentheses of their method."""
    by_method: dict[str, list[str]] = defaultdict(list)
    for method, parameter in entries:
        by_method[method] += [parameter] if parameter else []
    return [f"`{method}({', '.join(names)})`" if names else f"`{method}`" for method, names in by_method.items()]


def section(title: str, methods: list[str], evidence: list[Evidence]) -> str:
    """Return a section: a table of these methods and their parameters."""
    tests: dict[tuple[str, str], list[str]] = defaultdict(list)
    different = set()
    for test, entries, why, _ in sorted(evidence):
        narrowed = {method for method, parameter in entries if parameter}
        for entry in entries:
            tests[entry].append(_link(test))
            if why and (entry[1] or entry[0] not in narrowed):
                different.add(entry)
    rows = []
    for entry in (entry for method in methods for entry in surface().values() if entry.method == method):
        state = "differs" if entry.key in different else "same"
        rows.append((_name(entry), _version(entry), state, "<br>".join(dict.fromkeys(tests[entry.key]))))
    return f"## {title}\n\n" + _table(("method, parameter", "Python", "asyncio", "tests"), rows)


def _name(entry: Entry) -> str:
    name = entry.method.split(".")[1]
    if entry.parameter:
        return f"&emsp;`{entry.parameter}`"
    return f"`{name}`" if name in OPERATORS else f"`{name}({', '.join(entry.required)})`"


def _version(entry: Entry) -> str:
    return "" if entry.since is None else ".".join(map(str, entry.since))


def _link(test: str) -> str:
    """Name a test, with a link to its file."""
    path, name = test.split("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../../{path})"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    PAGE.write_text(page(collected()), encoding="utf-8")


if __name__ == "__main__":
    main()
