"""The commands `loopcore ps`, `stacks`, `cancel` and `top`: entry points in the group `loopcore.commands`."""

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from loopcore.errors import UsageError, check_writable
from loopcore_plugins.attach.reports import ask_each as ask_unprepared
from loopcore_plugins.attach.reports import pid_to_attach
from loopcore_plugins.inspect.client import PATIENCE, Client, GoneError, SilentError, connect, find
from loopcore_plugins.inspect.listing import branches_of_output, ps_lines, shorten, stacks_lines, whereabouts
from loopcore_plugins.inspect.places import Address, addresses

GROUP: Final = "Look at a running program"
"""The heading of these commands in `loopcore --help`."""
WHICH: Final = "a process number, PID.NUMBER for one loop of several, or `all`"
NOTICE: Final = 2.0
"""Seconds after which a command says what it waits for."""
MOST_NAMED: Final = 20
"""The most tasks in an error message."""
CANCEL_PATIENCE: Final = 2.0
"""Seconds to wait for a cancelled task to end."""


def _complete(pid: argparse.Action) -> None:
    """Complete an argument, in a shell, with the processes that can be inspected; argcomplete reads the attribute."""
    pid.completer = lambda **_: sorted({str(each.pid) for each in addresses()})  # type: ignore[attr-defined]


def ps(parser: argparse.ArgumentParser) -> None:
    """List the tasks of a running process, and what each awaits."""
    pid = parser.add_argument("pid", metavar="PID", nargs="?", default="all", help=f"{WHICH} (the default)")
    parser.add_argument("--json", action="store_true", help="print JSON, for another program to read")
    _complete(pid)
    parser.set_defaults(act=lambda arguments: _report("ps", arguments), group=GROUP)


def stacks(parser: argparse.ArgumentParser) -> None:
    """Print the stacks of the threads and tasks of a running process."""
    pid = parser.add_argument("pid", metavar="PID", nargs="?", default="all", help=f"{WHICH} (the default)")
    parser.add_argument("--json", action="store_true", help="print JSON, for another program to read")
    _complete(pid)
    parser.set_defaults(act=lambda arguments: _report("stacks", arguments), group=GROUP)


def cancel(parser: argparse.ArgumentParser) -> None:
    """Cancel a task of a running process."""
    pid = parser.add_argument("pid", metavar="PID", help="a process number, or PID.NUMBER for one loop of several")
    parser.add_argument("task", metavar="TASK", help="the name of a task, or its id as `loopcore ps --json` has it")
    _complete(pid)
    parser.set_defaults(act=_cancel, group=GROUP)


def top(parser: argparse.ArgumentParser) -> None:
    """Show live figures of a running process, in the terminal or in a browser, or write them to a page."""
    pid = parser.add_argument(
        "pid", metavar="PID", nargs="?", default="all", help="may be omitted if there is only one"
    )
    parser.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS", help="between two frames")
    parser.add_argument(
        "--light", action="store_true", help="do not measure single callbacks: shows less, and costs hardly anything"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--once", action="store_true", help="print one frame and exit")
    instead.add_argument("--page", action="store_true", help="serve them to a browser on this machine, read-only")
    instead.add_argument("--html", type=Path, metavar="FILE", help="watch for some time and write a page with charts")
    parser.add_argument("--seconds", type=seconds, default=10.0, metavar="N", help="how long for --html (default: 10)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port for --page (default: a free one)")
    _complete(pid)
    parser.set_defaults(act=_top, group=GROUP)


def seconds(text: str) -> float:
    """Return the value of an option of the command line, in seconds."""
    value = float(text)
    if not 0.05 <= value <= 86400:
        raise argparse.ArgumentTypeError("must be between 0.05 and 86400 seconds")
    return value


def _ask_each(wish: str, question: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return greeting and answer of each loop that `wish` names. Raises UsageError, GoneError if none answers."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    failure: GoneError | None = None
    for address in find(wish):
        try:
            with _waiting_for(address), connect(address) as client:
                found.append((client.greeting, client.ask(question)))
        except GoneError as exc:
            failure = exc
    if not found and failure is not None:
        raise failure
    return found


def _report(question: str, arguments: argparse.Namespace) -> int:
    attaches = pid_to_attach(arguments.pid) is not None
    found = (ask_unprepared if attaches else _ask_each)(arguments.pid, question)
    if arguments.json:
        print(json.dumps([{**greeting, **answer} for greeting, answer in found], indent=2))
        return 0
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, (greeting, answer) in enumerate(found):
        if number:
            print()
        lines = (
            ps_lines(greeting, answer, branches_of_output(), room)
            if question == "ps"
            else stacks_lines(greeting, answer)
        )
        print("\n".join(lines))
    return 0


def _one(wish: str) -> Address:
    """Return the one loop that `wish` names; of several in a process, the first. Raises UsageError."""
    found = find(wish)
    if len({each.pid for each in found}) > 1:
        raise UsageError(f"which process? there are {', '.join(map(str, found))}")
    return found[0]


def _cancel(arguments: argparse.Namespace) -> int:
    address = _one(arguments.pid)
    with connect(address) as client:
        with _waiting_for(address):
            task = _find_task(client, arguments.task)
            client.ask("cancel", task=task["id"])
        name = shorten(task["name"])
        try:
            has_ended = _ends(client, task["id"])
        except SilentError:
            raise
        except GoneError as exc:  # the process has ended with the task, which may have been all that it ran
            print(f"{name} is cancelled; {exc}")
            return 0
    if has_ended:
        print(f"{name} is cancelled")
        return 0
    print(f"{name} was asked to cancel but is still running; its loop may be busy, or it ignores this", file=sys.stderr)
    return 1


def _ends(client: Client, task_id: int) -> bool:
    """Wait for a task to end; return whether it has. Raises GoneError if its loop has ended."""
    end = time.monotonic() + CANCEL_PATIENCE
    while time.monotonic() < end:
        if all(each["id"] != task_id for each in client.ask("ps")["tasks"]):
            return True
        time.sleep(0.05)
    return False


def _find_task(client: Client, wish: str) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = client.ask("ps")["tasks"]
    found = [task for task in tasks if wish in (task["name"], str(task["id"]))]
    if len(found) > 1:
        ids = ", ".join(f"{task['id']} ({whereabouts(task)})" for task in found[:MOST_NAMED])
        raise UsageError(f"{len(found)} tasks are called {wish!r}; give the id of one instead: {ids}")
    if not found:
        names = ", ".join(sorted(shorten(task["name"]) for task in tasks)[:MOST_NAMED])
        raise UsageError(f"no task is called {wish!r}; " + (f"there are: {names}" if names else "there are no tasks"))
    return found[0]


def _top(arguments: argparse.Namespace) -> int:
    if pid_to_attach(arguments.pid) is not None:
        return _top_unprepared(arguments)
    address = _one(arguments.pid)
    if arguments.html is not None:
        from loopcore_plugins.inspect.page import record

        check_writable(arguments.html)
        tell, clear = _progress(f"recording {address}", arguments.seconds)
        try:
            record(address, arguments.html, arguments.seconds, tell)
        finally:
            clear()
        print(f"{arguments.html} is written")
        return 0
    if arguments.page:
        return _serve(address, arguments)
    return _find_top()(address, interval=arguments.interval, light=arguments.light, once=arguments.once)


def _serve(address: Address, arguments: argparse.Namespace) -> int:
    from loopcore_plugins.inspect.page import serve

    def tell(url: str) -> None:
        print(f"{url}\nThe address lets its reader see the process; ctrl-c ends this.", flush=True)

    try:
        print(serve(address, interval=arguments.interval, light=arguments.light, port=arguments.port, tell=tell))
    except KeyboardInterrupt:
        pass
    return 0


def _top_unprepared(arguments: argparse.Namespace) -> int:
    if arguments.html is not None or arguments.page:
        raise UsageError("a page needs the plugin inspect: start the program as in loopcore run --plugin inspect FILE")
    from loopcore_plugins.attach.screen import run_top

    return run_top(arguments.pid, interval=arguments.interval, once=arguments.once)


def _progress(what: str, seconds: float) -> tuple[Callable[[float], None], Callable[[], None]]:
    """Return a function that shows the seconds that have passed, on a terminal, and one that clears the line.

    If standard error is not a terminal, it gets one line now, if this takes long.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        if sys.stderr is not None and seconds > NOTICE:
            print(f"{what} for {seconds:g} s", file=sys.stderr, flush=True)
        return (lambda passed: None), (lambda: None)

    def tell(passed: float) -> None:
        print(f"\r{what}: {passed:.0f} of {seconds:g} s", end="", file=sys.stderr, flush=True)

    return tell, lambda: print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _waiting_for(address: Address) -> Iterator[None]:
    """Say on standard error, after some time, what the command is waiting for."""

    def tell() -> None:
        if sys.stderr is not None:
            print(f"waiting for {address}, at most {PATIENCE:g} s", file=sys.stderr, flush=True)

    timer = threading.Timer(NOTICE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _find_top() -> Callable[..., int]:
    try:
        from loopcore_plugins.inspect.top import run_top
    except ModuleNotFoundError as exc:
        if not (exc.name or "").startswith("rich"):
            raise
        raise UsageError('`loopcore top` needs rich: pip install "loopcore[cli]"') from None
    return run_top
