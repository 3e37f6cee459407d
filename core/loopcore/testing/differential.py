"""The differential runner: one program on two loops, their logs compared line by line.

    async def program(log):
        reader, writer = await asyncio.open_connection(...)
        log("connected")
        ...

    agree(program, "epoll", "mine")              two backends
    agree(program, "mine", asyncio.new_event_loop)    asyncio is the oracle

A log contains times, addresses or descriptor numbers only if the program writes them: write only what must be the
same. Exceptions that a program raises, and errors that its loop reports, are lines too.
"""

import asyncio
import difflib
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from loopcore.loop import EventLoop

Log: TypeAlias = Callable[[str], None]
Program: TypeAlias = Callable[[Log], Coroutine[Any, Any, object]]
Where: TypeAlias = str | Callable[[], asyncio.AbstractEventLoop]


class Disagreement(AssertionError):
    """Two loops ran a program differently; the text is the difference of their logs."""


def record(program: Program, where: Where) -> list[str]:
    """Run `program` on the backend named `where`, or on the loop that `where` makes; return its log."""
    lines: list[str] = []
    loop = EventLoop(where) if isinstance(where, str) else where()

    def reported(_: object, context: dict[str, Any]) -> None:
        lines.append(f"reported: {context['message']} {context.get('exception')!r}")

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().set_exception_handler(reported)
        try:
            lines.append(f"returned: {runner.run(program(lines.append))!r}")
        except Exception as exc:
            lines.append(f"raised: {exc!r}")
    return lines


def agree(program: Program, one: Where, other: Where) -> list[str]:
    """Return the log of `program`, which is the same on both. Raises Disagreement if it is not."""
    logs = [record(program, where) for where in (one, other)]
    if logs[0] != logs[1]:
        difference = difflib.unified_diff(logs[0], logs[1], str(one), str(other), lineterm="")
        raise Disagreement("\n".join([f"{getattr(program, '__name__', program)} differs:", *difference]))
    return logs[0]
