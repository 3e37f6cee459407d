"""Reports: `ps` and `stacks` of a process without the plugin inspect, in the form of that plugin's answers."""

import sys
from typing import Any

from loopcore.errors import UsageError
from loopcore_plugins.attach import outside
from loopcore_plugins.attach.injection import Agent, NotReachedError, attached
from loopcore_plugins.attach.process import Process
from loopcore_plugins.inspect import places

Pair = tuple[dict[str, Any], dict[str, Any]]


def pid_to_attach(wish: str) -> int | None:
    """Return the process that `wish` (PID or PID.NUMBER) names, if it has no socket of the plugin inspect."""
    named = places.pid_and_number(wish)
    return None if named is None or any(each.pid == named[0] for each in places.addresses()) else named[0]


def ask_each(wish: str, question: str) -> list[Pair]:
    """Return greeting and answer of each loop that `wish` names. Raises UsageError, GoneError."""
    pid = int(wish.partition(".")[0])
    try:
        with attached(pid, question) as agent:
            found = chosen(agent, wish)
            if not found:
                return [(_no_loop(pid), agent.ask("stacks"))]
            answers = [agent.ask(question, each["loop"]) for each in found]
            for each, answer in zip(found, answers, strict=True):
                answer["waiting"] = agent.process.is_waiting(each["native_id"])
            return list(zip(found, answers, strict=True))
    except NotReachedError as exc:
        if sys.stderr is not None:
            print(f"{exc}; this was read from outside, without states and figures", file=sys.stderr, flush=True)
        answer = outside.stacks(Process(pid))
        return [({**_no_loop(pid), "backend": "read from outside"}, answer)]


def chosen(agent: Agent, wish: str) -> list[dict[str, Any]]:
    """Return the loops that `wish` names: all, or the one of PID.NUMBER. Raises UsageError if that does not exist."""
    found: list[dict[str, Any]] = agent.ask("loops")
    _, dot, number = wish.partition(".")
    if not dot:
        return found
    if not 1 <= int(number) <= len(found):
        raise UsageError(f"there is no loop {wish}; running loops of process {agent.process.pid}: {len(found)}")
    return [found[int(number) - 1]]


def _no_loop(pid: int) -> dict[str, Any]:
    version = f"cpython {sys.version_info[0]}.{sys.version_info[1]}"
    return {
        "pid": pid,
        "loop": "-",
        "program": Process(pid).command_line(),
        "python": version,
        "backend": "no loop found",
    }
