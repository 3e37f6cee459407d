import asyncio
import itertools
from collections import Counter
from math import comb

import pytest

from loopcore.errors import UsageError
from loopcore.sim.search import Coverage, DelayBounded, Fifo, Pct, Random, Replay, mixed
from loopcore.sim.tape import Level, Tape
from tests.unit.sim.exploring import Outcome, explore
from tests.unit.sim.models import LostUpdateError, cancellation, fails, gates, lost_update, narrow


def failures(program, strategy_of, seeds=range(300)) -> list[Outcome]:
    return [outcome for outcome in explore(program, strategy_of=strategy_of, seeds=seeds) if outcome.error]


@pytest.mark.parametrize(
    "strategy_of",
    [Random, lambda seed: Pct(2, 12, seed), mixed, DelayBounded(2), Coverage(1)],
    ids=["random", "pct", "mixed", "delay-bounded", "coverage"],
)
def test_every_search_finds_the_lost_update(strategy_of) -> None:
    found = failures(lost_update, strategy_of)
    assert found
    for outcome in found[:5]:
        assert fails(lost_update, Tape.from_token(outcome.tape.token()))


def test_fifo_does_not_find_it() -> None:
    assert not failures(lost_update, lambda seed: Fifo(), seeds=range(3))


def test_mixed_is_fifo_for_seed_zero_and_repeats_its_runs() -> None:
    first, *rest = explore(lost_update, seeds=range(50))
    assert set(first.tape.values) == {0}
    assert {type(mixed(seed)) for seed in range(50)} == {Fifo, Random, Pct}
    for seed, tape, error in rest:
        again = next(explore(lost_update, seeds=[seed]))
        assert (again.tape.choices, repr(again.error)) == (tape.choices, repr(error))


def test_pct_keeps_its_guarantee_for_a_failure_of_depth_two() -> None:
    """2 actors and 24 choices: 1 run in 48, give or take three standard deviations of 4,800 runs."""
    runs = 4_800
    found = len(failures(narrow, lambda seed: Pct(2, 24, seed), seeds=range(runs)))
    by_chance = len(failures(narrow, lambda seed: Random(seed, rate=0.5), seeds=range(runs)))
    assert found >= 100 - 30
    assert by_chance <= 3


def test_pct_of_depth_one_finds_none_that_need_a_change() -> None:
    assert not failures(narrow, lambda seed: Pct(1, 24, seed))


def test_pct_tries_each_point_of_cancellation_equally_often() -> None:
    runs = 4_000
    found = len(failures(cancellation, lambda seed: Pct(2, 40, seed), seeds=range(runs)))
    assert 70 < found < 130  # 1 in 40


def test_pct_runs_the_same_actor_first_until_a_change_and_is_random_after_its_steps() -> None:
    tape = Tape(Pct(2, 50, seed=3))
    actors = ["a", "b", "c"]
    order = "".join(actors[tape.pick(actors, "step")] for _ in range(50))
    assert len(list(itertools.groupby(order))) <= 2
    for seed in range(20):
        tape = Tape(Pct(1, 5, seed))
        later = [tape.pick(actors, "step") for _ in range(200)][5:]
        if len(set(later)) == 3:
            return
    pytest.fail("no random choice after the steps")


def test_pct_keeps_the_order_of_one_actor() -> None:
    tape = Tape(Pct(3, 100, seed=5))
    assert all(tape.pick(["a", "b", "a", "b"], "step") < 2 for _ in range(100))


@pytest.mark.parametrize(("depth", "steps"), [(0, 10), (5, 3)])
def test_pct_refuses_an_impossible_depth(depth: int, steps: int) -> None:
    with pytest.raises(UsageError, match="a depth of 1 or more"):
        Pct(depth, steps, 1)


@pytest.mark.parametrize("bound", [0, 1, 2, 3])
def test_delay_bounded_runs_exactly_the_expected_set(bound: int) -> None:
    def program(tape: Tape) -> None:
        for _ in range(4):
            tape.choose(3, "x")

    search = DelayBounded(bound)
    ran = [tuple(outcome.tape.values) for outcome in explore(program, strategy_of=search, seeds=itertools.repeat(0))]
    expected = {each for each in itertools.product(range(3), repeat=4) if sum(map(bool, each)) <= bound}
    assert ran[0] == (0, 0, 0, 0)
    assert Counter(ran) == Counter(expected)
    assert len(ran) == sum(comb(4, changes) * 2**changes for changes in range(bound + 1))
    assert search(0) is None


def test_delay_bounded_follows_a_program_whose_questions_depend_on_answers() -> None:
    def program(tape: Tape) -> None:
        if tape.choose(2, "first"):
            tape.choose(3, "second")
            raise ValueError

    search = DelayBounded(2)
    outcomes = list(explore(program, strategy_of=search, seeds=itertools.repeat(0)))
    assert [outcome.tape.values for outcome in outcomes] == [[0], [1, 0], [1, 1], [1, 2]]


def test_coverage_passes_gates_that_random_does_not() -> None:
    assert not failures(gates, Random, seeds=range(2_000))
    search = Coverage()
    assert failures(gates, search, seeds=range(2_000))
    assert ("gate 3 True", "gate 4 True") in search.pairs


def test_explore_yields_each_seed_with_its_tape_and_error() -> None:
    def program(tape: Tape) -> None:
        if tape.seed == 4:
            raise asyncio.CancelledError
        if tape.seed == 5:
            raise SystemExit(1)

    outcomes = list(explore(program, seeds=[3, 4, 5], level=Level.WAKE))
    assert [(each.seed, type(each.error)) for each in outcomes] == [
        (3, type(None)),
        (4, asyncio.CancelledError),
        (5, SystemExit),
    ]
    assert {each.tape.level for each in outcomes} == {Level.WAKE}


def test_explore_stops_at_an_interrupt_and_when_its_caller_stops() -> None:
    ran = []

    def program(tape: Tape) -> None:
        ran.append(tape.seed)
        if tape.seed == 2:
            raise KeyboardInterrupt

    assert next(explore(program)).seed == 0
    assert ran == [0]
    with pytest.raises(KeyboardInterrupt):
        list(explore(program))
    assert ran == [0, 0, 1, 2]


def test_replay_repeats_a_failure() -> None:
    outcome = failures(lost_update, Random)[0]
    with pytest.raises(LostUpdateError):
        lost_update(Tape(Replay(outcome.tape.values)))
