import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from loopcore.sim.search import Pct, Random
from loopcore.sim.shrinking import ByLabel, Labelled, shrink, shrink_labels, shrunk
from loopcore.sim.tape import Replay, Strategy, Tape
from tests.unit.sim.exploring import explore
from tests.unit.sim.models import cancellation, fails, lost_update, narrow


def changes(values: list[int]) -> int:
    return sum(1 for value in values if value)


def lists_with(count: int, length: int) -> Iterator[list[int]]:
    for positions in itertools.combinations(range(length), count):
        yield [int(position in positions) for position in range(length)]


def known_minimum(failing: Callable[[list[int]], bool], length: int) -> int:
    """The fewest changes by trying all lists of choices of two."""
    return next(count for count in itertools.count() if any(map(failing, lists_with(count, length))))


@pytest.mark.parametrize(
    ("program", "strategy_of", "length", "minimum"),
    [
        (lost_update, lambda seed: Random(seed, rate=0.4), 8, 2),
        (narrow, lambda seed: Pct(2, 24, seed), 24, 4),
        (cancellation, lambda seed: Random(seed, rate=0.1), 40, 1),
    ],
)
def test_shrinking_reaches_the_known_minimum(program, strategy_of, length: int, minimum: int) -> None:
    def failing(values) -> bool:
        return fails(program, Tape(Replay(values)))

    runs = explore(program, strategy_of=strategy_of, seeds=range(1_000))
    found = [outcome.tape.values for outcome in runs if outcome.error]
    assert len(found) >= 5
    assert known_minimum(failing, length) == minimum
    for values in found[:20]:
        shrunk = shrink(values, failing)
        assert failing(shrunk)
        assert changes(shrunk) == minimum


def test_one_of_several_hundred_changes_is_found_within_a_small_budget() -> None:
    draw = random.Random(5)
    values = [draw.randrange(3) for _ in range(2_000)]
    values[1_400] = 2
    assert shrink(values, lambda values: values[1_400:1_401] == [2], budget=100) == [0] * 1_400 + [2]


def test_two_changes_that_only_go_together_are_removed() -> None:
    def failing(values) -> bool:
        return sum(values) in (1, 3)

    assert changes(shrink([1, 1, 1], failing)) == 1


def test_a_change_is_removed_though_the_later_ones_move() -> None:
    """Where the first question is answered by 1, two more are asked before the one that matters."""

    def program(tape: Tape) -> bool:
        if tape.choose(2, "retry"):
            tape.choose(2, "delay")
            tape.choose(2, "delay")
        tape.choose(2, "arrive")
        return tape.choose(2, "cancel") == 1

    assert shrink([1, 0, 0, 0, 1], lambda values: program(Tape(Replay(values)))) == [0, 0, 1]


def test_answers_become_smaller() -> None:
    assert shrink([0, 90], lambda values: len(values) == 2 and values[1] >= 17) == [0, 17]


def test_zeros_between_changes_are_dropped_where_the_run_fails_without() -> None:
    def failing(values) -> bool:
        return changes(values) >= 2 and len(values) >= 5

    assert shrink([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0], failing) == [1, 0, 0, 0, 1]


def test_a_run_that_fails_by_itself_needs_no_choice() -> None:
    assert shrink([1, 0, 2, 0], lambda values: True) == []


def test_the_budget_is_the_number_of_runs_and_no_list_is_tried_twice() -> None:
    tried: list[tuple[int, ...]] = []

    def failing(values) -> bool:
        tried.append(tuple(values))
        return sum(values) >= 30

    shrunk = shrink([1] * 100, failing, budget=25)
    assert len(tried) == 25
    assert len(set(tried)) == 25
    assert sum(shrunk) >= 30
    assert len(shrunk) < 100


def test_choices_that_do_not_fail_stay_as_they_are() -> None:
    assert shrink([1, 2], lambda values: False) == [1, 2]


def test_changes_keep_their_places_by_label_when_others_are_left_out():
    def run(strategy: Strategy) -> tuple[Tape, bool]:
        """Two of a kind, and a third question for each of the first that is not 0."""
        tape = Tape(strategy)
        answers = []
        for number in range(6):
            if tape.choose(2, f"noise: {number}"):
                tape.choose(2, "more")
            answers.append(tape.choose(3, "fault: a, b"))
        return tape, answers[2] == 1 and answers[5] == 2

    changes = next(
        Labelled.of(tape.choices) for tape, failed in (run(Random(seed, 0.5)) for seed in range(1000)) if failed
    )
    assert len(changes) > 5
    shrunk = shrink_labels(changes, lambda some: run(ByLabel(some))[1])
    assert [(change.label, change.occurrence, change.answer) for change in shrunk] == [
        ("fault: a, b", 2, 1),
        ("fault: a, b", 5, 2),
    ]


class Ended:
    """A run that is over."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape


def noisy(strategy: Strategy) -> Ended | None:
    """Fails by two of a hundred faults; the other questions are about noise, and each answer asks more of them."""
    tape = Tape(strategy)
    faults = []
    for number in range(100):
        for _ in range(tape.choose(5, f"noise: {number}")):
            tape.choose(2, "more")
        faults.append(tape.choose(2, f"fault: {number}"))
    return Ended(tape) if faults[30] and faults[60] else None


def test_labels_come_before_positions():
    first = next(ended for ended in (noisy(Random(seed, 0.5)) for seed in range(100)) if ended)
    best = shrunk(noisy, first, 200)
    assert [choice.label for choice in best.tape.choices if choice.value] == ["fault: 30", "fault: 60"]


@pytest.mark.parametrize("budget", [0, 1, 2, 20])
def test_the_best_is_a_run_that_failed_and_the_budget_is_kept(budget: int):
    first = next(ended for ended in (noisy(Random(seed, 0.5)) for seed in range(100)) if ended)
    tried = []

    def run_once(strategy: Strategy) -> Ended | None:
        tried.append(noisy(strategy))
        return tried[-1]

    best = shrunk(run_once, first, budget)
    assert len(tried) == budget
    assert best is ([first] + [ended for ended in tried if ended])[-1]


def test_a_run_that_does_not_fail_again_is_its_own_best():
    first = Ended(Tape(Replay([1, 1])))
    first.tape.choose(2, "fault")
    assert shrunk(lambda strategy: None, first, 100) is first


def test_a_change_of_order_is_kept_by_the_name_of_the_actor():
    tape = Tape(Replay([2]))
    tape.pick(["ann", "bob", "cid"], "next")
    (change,) = Labelled.of(tape.choices)
    again = Tape(ByLabel([change]))
    assert again.pick(["cid", "ann"], "next") == 0
    assert Tape(ByLabel([change])).pick(["ann", "cid"], "next") == 1
    assert Tape(ByLabel([change])).pick(["ann", "bob"], "next") == 0
