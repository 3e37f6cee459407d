"""A mistake in a call of the simulation is an error that says what to give instead."""

import gc
import socket
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import sim
from loopcore.errors import UsageError


async def main() -> int:
    return 1


def inside(call: Callable[[], Any]) -> Callable[[], Any]:
    """A call from inside a simulation."""

    async def calls() -> None:
        made = call()
        if made is not None:
            await made

    return lambda: sim.run(calls)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "seed": (lambda: sim.run(main, seed="a"), "a seed is a whole number, 0 or more, not 'a'"),  # type: ignore[arg-type]
    "negative seed": (lambda: sim.run(main, seed=-1), "a seed is 0 or more, this is -1"),
    "level": (lambda: sim.run(main, level="x"), "a level is sim.Level.IO, .* not 'x'"),  # type: ignore[arg-type]
    "level of check": (lambda: sim.check(main, level=7), "a level is sim.Level.IO, .* not 7"),  # type: ignore[arg-type]
    "coroutine": (lambda: sim.run(main()), r"pass the function, not the coroutine: .*: run\(main\)"),  # type: ignore[arg-type]
    "no coroutine": (lambda: sim.run(lambda: 3), r"<lambda>\(\) returned 3, .* defined with `async def`"),  # type: ignore[arg-type, return-value]
    "no coroutine in a search": (lambda: sim.check(lambda: 3), r"<lambda>\(\) returned 3"),  # type: ignore[arg-type, return-value]
    "no function": (lambda: sim.run(3), "a simulation runs a coroutine function without arguments, not 3"),  # type: ignore[arg-type]
    "seeds": (lambda: sim.check(main, seeds=0), "seeds is how many schedules to try, 1 or more, not 0"),
    "text as seeds": (lambda: sim.check(main, seeds="12"), "an iterable of seeds, not '12'"),  # type: ignore[arg-type]
    "no seeds": (lambda: sim.check(main, seeds=[]), "there is no seed to try"),
    "limit": (lambda: sim.run(main, limit=0), "limit is in simulated seconds, above 0, .* not 0"),
    "token": (lambda: sim.replay(main, None), "a replay token is a string that starts with 'sim1_', not None"),  # type: ignore[arg-type]
    "nested": (inside(lambda: sim.run(main)), r"a simulation runs already, .* add hosts to it \(sim.host\)"),
    "host": (inside(lambda: sim.host("a", main()) and None), r"not the coroutine: .*: host\('a', main\)"),  # type: ignore[arg-type]
    "program": (inside(lambda: sim.host("a", lambda: 3) and None), r"<lambda>\(\) returned 3"),  # type: ignore[arg-type, return-value]
    "clock": (inside(lambda: sim.host("a", main, clock_rate=0) and None), "clock_rate is .* above 0, not 0"),
    "may_cancel": (inside(lambda: sim.may_cancel(main)), r"takes a coroutine, as in may_cancel\(get\(\)\), not <f"),  # type: ignore[arg-type]
    "delays": (inside(lambda: sim.link("main", "main", delays=["a"])), "delays are seconds"),  # type: ignore[list-item, func-returns-value]
    "bandwidth": (inside(lambda: sim.link("main", "main", bandwidth=0)), "above 0, .* not 0"),  # type: ignore[func-returns-value]
    "loss": (inside(lambda: sim.link("main", "main", loss="x")), "a share is .* this is 'x'"),  # type: ignore[arg-type, func-returns-value]
    "name": (inside(lambda: sim.fail_name("db", "x")), r"as socket.gaierror\(-2"),  # type: ignore[arg-type, func-returns-value]
    "choose": (inside(lambda: sim.choose("a", "x")), "the number of answers, 1 or more, not 'a'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_an_error_that_says_what_to_give(name: str) -> None:
    call, message = WRONG[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UsageError, match=message):
            call()
        gc.collect()


def test_a_lambda_that_calls_a_coroutine_function_is_a_program() -> None:
    assert sim.run(lambda: main()) == 1


def test_a_usage_error_of_the_program_is_a_failure() -> None:
    async def raises() -> None:
        raise UsageError("its own")

    assert isinstance(sim.simulate(raises, sim.Tape()).error, UsageError)


def test_the_failure_of_a_name_is_raised() -> None:
    async def resolves() -> None:
        sim.fail_name("db", socket.gaierror(socket.EAI_NONAME, "unknown"))
        with pytest.raises(socket.gaierror):
            socket.getaddrinfo("db", 5432)

    sim.run(resolves)
