"""Small programs with known races, scheduled by a tape."""

from collections.abc import Callable, Iterator

from loopcore.sim.tape import Tape


class LostUpdateError(AssertionError):
    pass


def scheduled(tape: Tape, actors: dict[str, Iterator[None]]) -> None:
    """Run the actors a step at a time. Answer 0 goes on with the first that has not ended."""
    while actors:
        key = list(actors)[tape.pick(list(actors), "step")]
        if next(actors[key], actors) is actors:
            del actors[key]


def lost_update(tape: Tape) -> None:
    """Two actors read, work and write the sum: it is wrong if one reads before the other's write."""
    total = 0

    def add(before: int) -> Iterator[None]:
        nonlocal total
        for _ in range(before):
            yield
        read = total
        yield
        total = read + 1
        yield

    scheduled(tape, {"a": add(3), "b": add(1)})
    if total != 2:
        raise LostUpdateError(total)


def narrow(tape: Tape, steps: int = 20, at: int = 10) -> None:
    """A failure of depth 2: all of `short` must run exactly between two steps of `long`."""
    opened = False

    def long() -> Iterator[None]:
        nonlocal opened
        for step in range(steps):
            opened = step == at
            yield

    def short() -> Iterator[None]:
        in_time = opened
        for _ in range(3):
            yield
        if in_time and opened:
            raise LostUpdateError

    scheduled(tape, {"long": long(), "short": short()})


def cancellation(tape: Tape, points: int = 40, at: int = 23) -> None:
    """A failure that needs one answer of many: the cancellation at one point. A cancelled run ends."""
    for point in range(points):
        if tape.choose(2, "cancel"):
            if point == at:
                raise LostUpdateError
            return


def gates(tape: Tape, count: int = 6) -> None:
    """A failure behind gates that open one after the other, each by one answer of four."""
    for gate in range(count):
        if tape.choose(4, f"gate {gate}") != 3:
            return
    raise LostUpdateError


def fails(program: Callable[[Tape], object], tape: Tape) -> bool:
    try:
        program(tape)
    except LostUpdateError:
        return True
    return False
