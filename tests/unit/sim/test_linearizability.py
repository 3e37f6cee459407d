"""Known histories, and all small ones of random clients against a search through every permutation."""

import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from loopcore import UsageError
from loopcore.sim.history import UNKNOWN, History, Operation, Recording
from loopcore.sim.linearizability import Counter, KeyValue, Model, Queue, Register, check


def begin(history: History, client: str, action: str, *arguments: object) -> Recording:
    return history.operation(client, action, *arguments).__enter__()


def new_history() -> History:
    return History(itertools.count().__next__)


def done(history: History, client: str, action: str, *arguments: object, result: object = None) -> None:
    with history.operation(client, action, *arguments) as operation:
        operation.returns(result)


def test_a_read_after_a_write_sees_it():
    history = new_history()
    done(history, "a", "write", 1)
    done(history, "b", "read", result=1)
    assert check(history, Register(0))


def test_a_stale_read_is_the_culprit():
    history = new_history()
    done(history, "a", "write", 1)
    done(history, "b", "read", result=0)
    done(history, "b", "read", result=1)
    verdict = check(history, Register(0))
    assert not verdict
    assert verdict.culprit == history.operations()[1]
    assert verdict.explain() == (
        "not linearizable: no order of the operations explains\n"
        "  b: read() -> 0 [2.000 s to 3.000 s]\n"
        "Until it returned, this order was possible:\n"
        "  a: write(1) -> None [0.000 s to 1.000 s]"
    )


def test_reads_beside_a_write_may_see_either_value_but_not_go_back():
    history = new_history()
    write = begin(history, "a", "write", 1)
    done(history, "b", "read", result=0)
    done(history, "b", "read", result=1)
    assert check(history, Register(0))
    done(history, "b", "read", result=0)
    write.returns(None)
    verdict = check(history, Register(0))
    assert verdict.culprit is not None
    assert (verdict.culprit.result, verdict.culprit.began) == (0, 6)


def test_a_write_that_never_returned_may_show_late_or_never():
    history = new_history()
    begin(history, "a", "write", 1)
    done(history, "b", "read", result=0)
    assert check(history, Register(0))
    done(history, "b", "read", result=1)
    assert check(history, Register(0))
    done(history, "b", "read", result=0)
    assert not check(history, Register(0))


def test_a_cancelled_operation_has_an_unknown_outcome_and_the_error_passes():
    history = new_history()
    with pytest.raises(KeyError), history.operation("a", "write", 1):
        raise KeyError
    (operation,) = history.operations()
    assert (operation.result, operation.ended) == (UNKNOWN, None)
    assert str(operation) == "a: write(1) -> unknown [since 0.000 s]"


def test_an_operation_that_failed_had_no_effect():
    history = new_history()
    with history.operation("a", "write", 1) as operation:
        operation.fails()
    done(history, "b", "read", result=1)
    assert not check(history, Register(0))


def test_a_block_that_ends_has_returned_none():
    history = new_history()
    with history.operation("a", "write", 1):
        pass
    assert history.operations()[0].ended == 2
    assert history.operations()[0].result is None


def test_one_outcome_is_recorded_once():
    operation = begin(new_history(), "a", "read")
    operation.returns(1)
    with pytest.raises(UsageError, match="returned already"):
        operation.returns(2)


def test_order_is_that_of_the_calls_although_time_stands_still():
    history = History(lambda: 0.0)
    done(history, "a", "write", 1)
    done(history, "b", "read", result=0)
    assert not check(history, Register(0))


def test_keys_are_checked_alone_and_the_wrong_one_is_named():
    history = new_history()
    for key in "xyz":
        done(history, "a", "write", key, 1)
    done(history, "b", "cas", "x", 1, 2, result=True)
    done(history, "b", "read", "y", result=7)
    verdict = check(history, KeyValue())
    assert list(verdict.orders) == ["y"]
    assert "of 'y' explains\n  b: read('y') -> 7" in verdict.explain()


def test_many_operations_of_many_keys_are_checked():
    history = new_history()
    for number in range(2_000):
        done(history, "a", "write", number % 50, number)
        done(history, "b", "read", number % 50, result=number)
    assert check(history, KeyValue())


@pytest.mark.parametrize(("first", "second", "fits"), [(1, 2, True), (2, 1, False), (None, 1, False)])
def test_a_queue_is_first_in_first_out(first: object, second: object, fits: bool):
    history = new_history()
    done(history, "a", "put", 1)
    done(history, "a", "put", 2)
    done(history, "b", "get", result=first)
    done(history, "b", "get", result=second)
    assert bool(check(history, Queue())) is fits


def test_a_cancelled_get_may_have_taken_an_item():
    history = new_history()
    done(history, "a", "put", 1)
    begin(history, "b", "get")
    done(history, "c", "get", result=None)
    assert check(history, Queue())


def test_two_increments_that_lose_one_are_found():
    history = new_history()
    one, two = begin(history, "a", "add", 1), begin(history, "b", "add", 1)
    one.returns(1)
    two.returns(1)
    verdict = check(history, Counter())
    assert verdict.culprit is not None
    assert verdict.culprit.client == "b"


def test_an_operation_the_model_does_not_know_is_refused():
    history = new_history()
    done(history, "a", "pop")
    with pytest.raises(UsageError, match=r"the model Queue has no operation 'pop'.*a: pop\(\)"):
        check(history, Queue())


def test_a_search_that_gives_up_does_not_pass():
    history = new_history()
    writes = [begin(history, str(number), "write", number) for number in range(12)]
    for write in writes:
        write.returns(None)
    done(history, "r", "read", result="never written")
    with pytest.raises(UsageError, match="13 operations are too many to check: no answer after 1000"):
        check(history, Register(), max_configurations=1000)


def brute_force(operations: Sequence[Operation], model: Model[Any]) -> bool:
    """Try each permutation of the operations that returned with each set of the others."""
    returned = [each for each in operations if each.ended is not None]
    pending = [each for each in operations if each.ended is None]
    sets = itertools.chain.from_iterable(itertools.combinations(pending, n) for n in range(len(pending) + 1))
    return any(explains(order, model) for some in sets for order in itertools.permutations((*returned, *some)))


def explains(order: Iterable[Operation], model: Model[Any]) -> bool:
    state, latest = model.initial, 0
    for each in order:
        if each.ended is not None and each.ended < latest:
            return False  # something that began after its end stands before it
        latest = max(latest, each.began)
        fits, state = model.step(state, each)
        if not fits:
            return False
    return True


def random_history(stream: random.Random, model: Model[Any]) -> list[Operation]:
    history = new_history()
    running: dict[str, Recording] = {}
    for _ in range(stream.randint(4, 11)):
        client = stream.choice("abc")
        if client in running:
            # An unknown outcome leaves the recording open.
            if stream.random() < 0.8:
                running[client].returns(stream.choice([None, 1, 2] if isinstance(model, Queue) else [0, 1, True]))
            del running[client]
        elif len(history.operations()) < 6:
            names = {Register: ["read", "write", "cas"], Queue: ["put", "get"], Counter: ["add", "read"]}[type(model)]
            name = stream.choice(names)
            count = {"write": 1, "put": 1, "add": 1, "cas": 2}.get(name, 0)
            arguments = [stream.choice([1, 2] if isinstance(model, Queue) else [0, 1]) for _ in range(count)]
            running[client] = begin(history, client, name, *arguments)
    return history.operations()


@pytest.mark.parametrize("model", [Register(0), Queue(), Counter()], ids=lambda model: type(model).__name__)
def test_the_search_agrees_with_brute_force(model: Model[Any]):
    outcomes = []
    for seed in range(400):
        operations = random_history(random.Random(seed), model)
        verdict = check(operations, model)
        assert bool(verdict) == brute_force(operations, model), seed
        outcomes.append(bool(verdict))
        if verdict:
            assert explains(verdict.orders.get(None, ()), model)
            continue
        assert verdict.culprit is not None
        position = verdict.culprit.ended or 0
        assert not brute_force(as_known_at(position, operations), model), seed
        assert brute_force(as_known_at(position - 1, operations), model), seed
        assert explains(verdict.orders[None], model)
    assert 40 < sum(outcomes) < 360  # both answers are tested


def as_known_at(position: int, operations: Sequence[Operation]) -> list[Operation]:
    known = [each for each in operations if each.began <= position]
    return [
        each._replace(ended=None, result=UNKNOWN) if each.ended is not None and each.ended > position else each
        for each in known
    ]
