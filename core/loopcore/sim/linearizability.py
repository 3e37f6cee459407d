"""Linearizability: whether each operation could have happened at one moment between its call and its return.

`check` searches for an order of the operations that keeps to real time and that a sequential model explains. It is the
search of Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) with the table of Lowe ("Testing for
Linearizability", 2017): a set of operations that led to a known state is not tried twice. An operation whose outcome
is unknown may come anywhere after its beginning, or be left out.

The problem is NP-complete: histories of some dozens of operations at a time are fine, and a model that says which
operations are independent (`key`) makes longer ones possible. PyPI has no library for it (November 2026).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from loopcore.errors import UsageError
from loopcore.sim.history import UNKNOWN, History, Operation

S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    """What an object does if one operation is made after another. States are immutable and hashable.

    A model may also have a method `key(operation)`: operations of different keys are independent of each other, and
    each key's history is checked alone.
    """

    @property
    def initial(self) -> S:
        """The state before the first operation."""

    def step(self, state: S, operation: Operation) -> tuple[bool, S]:
        """Return whether `operation` may have its result in `state`, and the state after it.

        The result may be unknown: `Operation.may_return` compares.
        """


@dataclass(frozen=True)
class Verdict:
    """The result of a check; true if the history is linearizable."""

    orders: Mapping[Hashable, Sequence[Operation]]
    """For each key an order that explains its operations; of a model without keys, under None.

    If the history is not linearizable: for the key that is not, an order of the longest prefix that is.
    """
    culprit: Operation | None
    """The operation whose return no order explains: the earliest one. None if the history is linearizable."""

    def __bool__(self) -> bool:
        return self.culprit is None

    def explain(self) -> str:
        """Return the reason in words, several lines."""
        if self.culprit is None:
            return f"linearizable: {sum(map(len, self.orders.values()))} operations have an order"
        ((key, order),) = self.orders.items()
        of_key = "" if key is None else f" of {key!r}"
        lines = [f"not linearizable: no order of the operations{of_key} explains", f"  {self.culprit}"]
        if order:
            lines += ["Until it returned, this order was possible:", *(f"  {each}" for each in order)]
        else:
            lines += ["No other operation had taken effect."]
        return "\n".join(lines)


def check(history: History | Iterable[Operation], model: Model[Any], *, max_configurations: int = 1_000_000) -> Verdict:
    """Return whether `history` is linearizable, with an order or the operation that has no place in one.

    Raises UsageError if the answer is not known after `max_configurations` pairs of a set of operations and a state.
    """
    operations = history.operations() if isinstance(history, History) else history
    key_of: Callable[[Operation], Hashable] = getattr(model, "key", lambda operation: None)
    parts: dict[Hashable, list[Operation]] = {}
    for operation in sorted(operations, key=lambda each: each.began):
        parts.setdefault(key_of(operation), []).append(operation)
    orders: dict[Hashable, Sequence[Operation]] = {}
    for key, part in parts.items():
        order = _linearize(part, model, max_configurations)
        if order is None:
            prefix, culprit = _first_failure(part, model, max_configurations)
            return Verdict({key: prefix}, culprit)
        orders[key] = order
    return Verdict(orders, None)


def _first_failure(operations: list[Operation], model: Model[S], limit: int) -> tuple[Sequence[Operation], Operation]:
    """Return an order of the longest linearizable prefix, and the operation whose return ends it."""
    returned = sorted((each for each in operations if each.ended is not None), key=lambda each: each.ended or 0)
    # A prefix of a linearizable history is linearizable, so the first return that breaks it is found by halving.
    longest: Sequence[Operation] = ()
    low, high = 0, len(returned) - 1
    while low < high:
        middle = (low + high) // 2
        order = _linearize(_until(returned[middle].ended or 0, operations), model, limit)
        if order is None:
            high = middle
        else:
            low, longest = middle + 1, order
    return longest, returned[low]


def _until(position: int, operations: list[Operation]) -> list[Operation]:
    """Return what was known at `position`: an operation that returned later had no result yet."""
    return [
        each
        if each.ended is None or each.ended <= position
        else each._replace(result=UNKNOWN, ended=None, ended_at=None)
        for each in operations
        if each.began < position
    ]


def _linearize(operations: Sequence[Operation], model: Model[S], limit: int) -> list[Operation] | None:
    """Return an order of `operations`, which are sorted by their beginnings, or None if there is none."""
    wanted = sum(1 << index for index, each in enumerate(operations) if each.ended is not None)
    order: list[int] = []
    seen: set[tuple[int, Hashable]] = {(0, model.initial)}
    stack: list[tuple[int, S, Iterator[int]]] = [(0, model.initial, _candidates(operations, 0))]
    while stack:
        taken, state, candidates = stack[-1]
        if taken & wanted == wanted:
            return [operations[index] for index in order]
        for index in candidates:
            fits, after = model.step(state, operations[index])
            if not fits or (operations[index].ended is None and after == state):
                continue  # without an effect and a result it explains nothing, wherever it stands
            configuration = (taken | 1 << index, after)
            if configuration not in seen:
                seen.add(configuration)
                order.append(index)
                stack.append((*configuration, _candidates(operations, configuration[0])))
                break
        else:
            stack.pop()
            if stack:
                order.pop()
        if len(seen) > limit:
            raise UsageError(
                f"{len(operations)} operations are too many to check: no answer after {limit} configurations; "
                "record fewer operations or clients, give the model a `key`, or pass a larger `max_configurations`"
            )
    return None


def _candidates(operations: Sequence[Operation], taken: int) -> Iterator[int]:
    """Yield which operations may come next: those that began before the first return of the others."""
    left = [(index, each) for index, each in enumerate(operations) if not taken >> index & 1]
    horizon = min((each.ended for _, each in left if each.ended is not None), default=0)
    return (index for index, each in left if each.began < horizon)


class Register:
    """A value with the operations `read()`, `write(value)` and `cas(old, new)`, which returns whether it changed it."""

    def __init__(self, initial: Hashable = None) -> None:
        self.initial = initial

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        """Make `operation` on a register whose value is `state`."""
        return self.access(state, operation, operation.arguments)

    def access(self, state: Hashable, operation: Operation, arguments: Sequence[Any]) -> tuple[bool, Hashable]:
        """Do the same with other arguments than the operation's own."""
        match operation.action, arguments:
            case "read", ():
                return operation.may_return(state), state
            case "write", (value,):
                return True, value
            case "cas", (old, new):
                changes = bool(old == state)
                return operation.may_return(changes), new if changes else state
        raise _unknown_operation(operation, self)


class KeyValue:
    """A register for each key: `read(key)`, `write(key, value)`, `cas(key, old, new)`. Each key is checked alone."""

    def __init__(self, initial: Hashable = None) -> None:
        self._register = Register(initial)
        self.initial = initial

    def key(self, operation: Operation) -> Hashable:
        """Return the key that `operation` is about."""
        if not operation.arguments:
            raise _unknown_operation(operation, self)
        key = operation.arguments[0]
        assert isinstance(key, Hashable)
        return key

    def step(self, state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
        """Make `operation` on the register of its key."""
        return self._register.access(state, operation, operation.arguments[1:])


class Counter:
    """A number: `read()`, and `add(amount)`, which returns the new number, or None where the program does not say."""

    initial = 0

    def step(self, state: int, operation: Operation) -> tuple[bool, int]:
        """Make `operation` on the number `state`."""
        match operation.action, operation.arguments:
            case "read", ():
                return operation.may_return(state), state
            case "add", (int(amount),):
                return operation.may_return(state + amount) or operation.result is None, state + amount
        raise _unknown_operation(operation, self)


class Queue:
    """First in, first out: `put(item)`, and `get()`, which returns the first item, or None if there is none."""

    initial: tuple[Hashable, ...] = ()

    def step(self, state: tuple[Hashable, ...], operation: Operation) -> tuple[bool, tuple[Hashable, ...]]:
        """Make `operation` on a queue with the items `state`."""
        match operation.action, operation.arguments:
            case "put", (item,):
                return True, (*state, item)
            case "get", ():
                return operation.may_return(state[0] if state else None), state[1:]
        raise _unknown_operation(operation, self)


def _unknown_operation(operation: Operation, model: object) -> UsageError:
    return UsageError(
        f"the model {type(model).__name__} has no operation {operation.action!r} with these arguments: "
        f"{operation}; record operations that the model knows, or write a model of your own"
    )
