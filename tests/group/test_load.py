"""The member with the least to do: the choice, from tables with known figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.group.load import MARGIN, STALE, Load, LoadTable, cells_of

SERVER = 0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def members(count: int, clock: Clock | None = None) -> list[Load]:
    """Return the loads of a group whose members all have the server, and nothing to do."""
    table = LoadTable([0.0] * cells_of(count), count)
    loads = [Load(table, index, clock or Clock()) for index in range(count)]
    for load in loads:
        load.report(0.0)
        load.offer(SERVER, True)
    return loads


def opened(load: Load, count: int) -> None:
    for _ in range(count):
        load.opened()


def test_a_connection_stays_if_all_have_the_same_to_do() -> None:
    loads = members(3)
    assert [load.choose(SERVER) for load in loads] == [None] * 3


def test_of_equally_busy_members_the_one_with_fewest_connections_is_chosen() -> None:
    loads = members(3)
    opened(loads[0], 5)
    opened(loads[1], 2)
    opened(loads[2], 3)
    assert [load.choose(SERVER) for load in loads] == [1, None, 1]


def test_of_members_with_as_many_connections_the_least_busy_is_chosen() -> None:
    loads = members(3)
    for load, busy in zip(loads, (0.9, 0.8, 0.2), strict=True):
        opened(load, 10)
        load.report(busy)
    assert [load.choose(SERVER) for load in loads] == [2, 2, None]


def test_a_small_difference_is_not_worth_it() -> None:
    loads = members(2)
    opened(loads[0], 10)
    opened(loads[1], 10)
    loads[0].report(MARGIN * 0.9)
    assert loads[0].choose(SERVER) is None
    loads[0].report(MARGIN * 1.1)
    assert loads[0].choose(SERVER) == 1


def test_a_member_without_the_server_is_not_chosen() -> None:
    loads = members(3)
    opened(loads[0], 5)
    loads[1].offer(SERVER, False)
    assert loads[0].choose(SERVER) == 2
    loads[2].offer(SERVER + 1, True)
    loads[2].offer(SERVER, False)
    assert loads[0].choose(SERVER) is None


def test_a_member_that_does_not_report_counts_as_busy() -> None:
    clock = Clock()
    loads = members(2, clock)
    opened(loads[0], 10)
    opened(loads[1], 9)
    loads[0].report(0.5)
    assert loads[0].choose(SERVER) == 1
    clock.now += 2 * STALE
    assert loads[0].choose(SERVER) is None


def test_connections_on_their_way_count() -> None:
    """Otherwise all of a burst would go to the member that was idle when it began."""
    loads = members(2)
    opened(loads[0], 10)
    given_away = 0
    while loads[0].choose(SERVER) == 1:
        loads[0].give(1)
        given_away += 1
    assert given_away == 10  # as many as the first has


def test_a_connection_that_has_arrived_counts_once() -> None:
    loads = members(2)
    opened(loads[0], 4)
    for _ in range(3):
        loads[0].give(1)
        loads[1].take(0)
        loads[1].opened()
    assert loads[0].choose(SERVER) == 1  # 4 to 3, not 4 to 6


def test_a_retired_member_gives_nothing_and_publishes_nothing() -> None:
    table = LoadTable([0.0] * cells_of(2), 2)
    old, other = Load(table, 0, Clock()), Load(table, 1, Clock())
    old.offer(SERVER, True)
    opened(old, 5)
    old.retire()
    new = Load(table, 0, Clock(), generation=1)
    new.report(0.0)
    new.offer(SERVER, True)
    old.opened()
    assert old.choose(SERVER) is None
    other.offer(SERVER, True)
    opened(other, 2)
    assert other.choose(SERVER) == 0
    assert table.figures(0)[1] == 0


def test_a_member_that_retires_late_leaves_the_row_to_its_successor() -> None:
    """Its loop was blocked when it was asked to."""
    table = LoadTable([0.0] * cells_of(2), 2)
    old, other = Load(table, 0, Clock()), Load(table, 1, Clock())
    opened(old, 5)
    new = Load(table, 0, Clock(), generation=1)
    new.report(0.5)
    new.offer(SERVER, True)
    opened(new, 1)
    old.report(1.0)
    opened(old, 1)
    old.retire()
    table.clear(0, 0)  # as the group does when the old member's process has died
    assert table.figures(0)[:2] == (0.5, 1)
    other.offer(SERVER, True)
    opened(other, 4)
    assert other.choose(SERVER) == 0


def test_a_member_whose_successor_failed_publishes_again() -> None:
    table = LoadTable([0.0] * cells_of(2), 2)
    old = Load(table, 0, Clock())
    opened(old, 2)
    old.retire()
    Load(table, 0, Clock(), generation=1).retire()
    old.resume()
    opened(old, 1)
    assert table.figures(0)[1] == 3


def test_totals_belong_to_the_place() -> None:
    table = LoadTable([0.0] * cells_of(2), 2)
    first = Load(table, 0, Clock())
    first.accept()
    first.give(1)
    second = Load(table, 0, Clock())
    second.accept()
    assert table.figures(0) == (0.0, 0, 2, 1, 0)


@given(st.integers(2, 8), st.integers(1, 400), st.randoms(use_true_random=False))
def test_bursts_end_up_even_wherever_they_are_accepted(count: int, burst: int, random: object) -> None:
    loads = members(count)
    on_their_way: list[tuple[int, int]] = []
    for _ in range(burst):
        sender = random.randrange(count)  # type: ignore[attr-defined]
        target = loads[sender].choose(SERVER)
        if target is None:
            loads[sender].opened()
        else:
            loads[sender].give(target)
            on_their_way.append((sender, target))
        while on_their_way and random.random() < 0.8:  # type: ignore[attr-defined]
            sender, target = on_their_way.pop(0)
            loads[target].take(sender)
            loads[target].opened()
    for sender, target in on_their_way:
        loads[target].take(sender)
        loads[target].opened()
    counts = [load.connections for load in loads]
    assert sum(counts) == burst
    # What the margin tolerates, and what several senders gave to the same member before it had arrived.
    assert max(counts) - min(counts) <= MARGIN * burst / count + 2 * count


def test_utilization_stays_between_zero_and_one() -> None:
    (load,) = members(1)
    for given_busy, published in ((-1.0, 0.0), (0.5, 0.5), (7.0, 1.0)):
        load.report(given_busy)
        assert load.utilization == pytest.approx(published)
