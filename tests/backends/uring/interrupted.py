"""Calls of a port that is closed, or asked to cancel, before each bytecode instruction; run as a program.

A trace function does what a signal handler or a finalizer could do there. Every operation that was accepted has to end
exactly once: with a completion, or as one that `close` returns.
"""

import socket
import sys
from collections.abc import Callable
from typing import Any

from loopcore.errors import BackendClosedError
from loopcore.ports.operations import Receive
from loopcore_backends.uring import UringBackend


def before_instruction(number: int, act: Callable[[], None]) -> tuple[Callable[..., Any], list[int]]:
    """Return a trace function that calls `act` once, and a list that counts the instructions."""
    count = [0]

    def trace(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            count[0] += 1
            if count[0] == number:
                sys.settrace(None)
                frame.f_trace = None
                act()
                return None
        return trace

    return trace, count


def interrupt(call: str, act: str, number: int) -> bool:
    """Interrupt `call` once; return whether it has so many instructions."""
    port = UringBackend()
    pairs = [socket.socketpair() for _ in range(2)]
    first, second = (Receive(one.fileno(), 10) for one, _ in pairs)
    accepted, ended = [first], []
    port.submit(first)
    if call != "wait":
        port.wait(0.0)
    trace, count = before_instruction(
        number, (lambda: ended.extend(port.close())) if act == "close" else (lambda: port.cancel(first))
    )
    sys.settrace(trace)
    try:
        if call == "submit":
            port.submit(second)
            accepted.append(second)
        elif call == "cancel":
            port.cancel(first)
        elif call == "close":
            ended.extend(port.close())
        else:
            ended.extend(operation for operation, _, more in port.wait(0.0) if not more)
    except BackendClosedError:
        if act != "close" and call != "close":
            raise
    finally:
        sys.settrace(None)
    if act == "cancel" and call != "close":
        for _ in range(3):
            ended.extend(operation for operation, _, more in port.wait(0.0) if not more)
        assert first in ended or count[0] < number, "the cancellation was lost"
    ended.extend(port.close())
    for one, other in pairs:
        one.close()
        other.close()
    key = [accepted.index(operation) for operation in ended if operation in accepted]
    assert sorted(key) == [*range(len(accepted))], f"{act} before instruction {number} of {call}: {ended}"
    assert len(ended) == len(accepted), f"{act} before instruction {number} of {call}: {ended}"
    return count[0] >= number


def main() -> None:
    for call in ("submit", "wait", "cancel", "close"):
        for act in ("close", "cancel"):
            if act == "cancel" and call == "close":
                continue  # it is refused
            number = 1
            while interrupt(call, act, number):
                number += 1
            assert number > 50, f"{call} has more instructions than that"


if __name__ == "__main__":
    main()
