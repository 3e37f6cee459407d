"""The tape: every choice of a simulated run, in order.

The simulation asks one question only: `choose(n, label)`, with an answer from 0 to n - 1. Answer 0 is what asyncio
does: the first to arrive, no delay, no loss, no cancellation. A run is therefore its list of answers. A list of zeros
is the run that asyncio makes, and the entries that differ from 0 explain a failure. Replay answers from a list,
shrinking puts zeros into it, exhaustive search counts through all lists.

A `Strategy` gives the answers; the tape checks and records them. Random numbers that are not choices (latencies, the
program's own draws) come from `stream`, one generator per name: one more draw by the program changes no schedule.

Every Python draws the same: of `random`, the strategies use only `random()` after seeding with a string, which is
documented to stay reproducible.
"""

import base64
import random
import re
import traceback
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from loopcore.errors import UsageError
from loopcore.sim.arguments import checked_seed

__all__ = ["Choice", "Fifo", "Level", "Random", "Replay", "Strategy", "Tape", "stream"]


class Level(IntEnum):
    """What may differ from asyncio's order, and so what a failure proves."""

    IO = 0
    """Arrivals, timers, ends of jobs and points of cancellation: a failure can happen in production."""
    WAKE = 1
    """Also the order in which waiters wake up. asyncio wakes them first come, first served: a failure shows that the
    program relies on this order, which is correct today and breaks under another scheduler."""
    ALL = 2
    """Also the order of any two ready callbacks. A failure may be impossible on asyncio; take it as a hint."""

    @classmethod
    def _missing_(cls, value: object) -> "Level":
        raise UsageError(f"a level is sim.Level.IO, sim.Level.WAKE or sim.Level.ALL, not {value!r}")


class Choice(NamedTuple):
    """One recorded choice: `value`, from 0 to `n` - 1; `keys` are the actors if the question was which goes next."""

    label: str
    n: int
    value: int
    keys: tuple[str, ...] = ()


class Strategy(Protocol):
    """The source of a tape's answers. One object serves one run."""

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        """Answer from 0 to `n` - 1, where `n` is at least 2.

        `keys` has `n` names of actors if the question is which of them goes next, and is empty otherwise. Called
        once per recorded choice, in order.
        """


def stream(seed: int, name: str) -> random.Random:
    """A new generator that depends on `seed` and `name` only, the same in every process and on every Python."""
    return random.Random(f"{seed}:{name}")


class Fifo:
    """Always 0: the run that asyncio makes."""

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        return 0


class Random:
    """Leave 0 at random; where it does, all other answers are equally likely.

    `rate` is the probability of leaving 0. By default each run draws a rate for each kind of choice, which is what its
    label has before the first ": ": some runs cancel often and never reorder, others the opposite. A common rate would
    hide failures that need many changes of one kind and none of another (Groce et al., "Swarm testing", ISSTA 2012).
    """

    RATES = (0.0, 0.02, 0.1, 0.3, 0.7)

    def __init__(self, seed: int, rate: float | None = None) -> None:
        self._random = stream(seed, "schedule").random
        self._rate = rate
        self._rates: dict[str, float] = {}

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        kind = label.partition(": ")[0]
        rate = self._rates.get(kind)
        if rate is None:
            drawn = self._rate if self._rate is not None else self.RATES[int(self._random() * len(self.RATES))]
            rate = self._rates[kind] = drawn
        if self._random() >= rate:
            return 0
        return 1 + int(self._random() * (n - 1))

    def chance(self, probability: float, label: str) -> bool:
        """Answer whether something of this probability happens: the same probability in every run."""
        return self._random() < probability


def chance_of(strategy: Strategy, probability: float, label: str) -> int:
    """Return 1 if something of this probability happens, as `strategy` answers, and 0 if not."""
    chance = getattr(strategy, "chance", None)
    return strategy.next(2, label, ()) if chance is None else int(chance(probability, label))


class _Made(NamedTuple):
    """What an earlier run was asked at a position: as much of it as is known."""

    n: int
    check: int
    label: str | None = None


def _check(label: str) -> int:
    return zlib.crc32(label.encode()) & 0xFF


def fitted(value: int, n: int) -> int:
    """`value` if it is an answer to a question of `n`; otherwise one that is, and that is still a change from 0."""
    return value if value < n else 1 + (value - 1) % (n - 1)


class Replay:
    """Give the answers of an earlier run, and 0 where it has none.

    `values` is a list of answers, a mapping of positions to answers, or the choices of another tape. With choices,
    each question is compared with the earlier one. `divergence` describes the first that differs, and
    `divergence_stack` is the stack of the code that asked it. The run goes on: an answer that is too large
    wraps round to one that is allowed and not 0.
    """

    def __init__(self, values: Sequence[int] | Sequence[Choice] | Mapping[int, int]) -> None:
        self.divergence: str | None = None
        self.divergence_stack: traceback.StackSummary | None = None
        self._position = 0
        self._values: dict[int, int] = {}
        self._made: dict[int, _Made] = {}
        self._length: int | None = None
        pairs: Iterable[tuple[int, int | Choice]] = values.items() if isinstance(values, Mapping) else enumerate(values)
        for position, entry in pairs:
            if isinstance(entry, Choice):
                self._made[position] = _Made(entry.n, _check(entry.label), entry.label)
                self._length = position + 1
                entry = entry.value
            if entry:
                self._values[position] = entry

    def next(self, n: int, label: str, keys: Sequence[str]) -> int:
        position = self._position
        self._position = position + 1
        made = self._made.get(position)
        value = self._values.get(position, 0)
        if made is not None:
            if made.n != n or made.check != _check(label):
                before = "a choice" if made.label is None else repr(made.label)
                self._diverge(f"choice {position} was {before} of {made.n} and is now {label!r} of {n}")
        elif self._length is not None and position >= self._length:
            self._diverge(f"choice {position}, {label!r} of {n}, is new: the earlier run made {self._length} choices")
        elif value >= n:
            self._diverge(f"choice {position}, {label!r}, was {value} and is now one of {n}")
        return fitted(value, n)

    def end(self) -> None:
        """Report that the run is over: one that ended before the earlier run has diverged."""
        length = self._length if self._length is not None else max(self._values, default=-1) + 1
        if self._position < length:
            self._diverge(f"the run ended after {self._position} choices; the earlier run made {length} or more")

    def _diverge(self, text: str) -> None:
        if self.divergence is None:
            self.divergence = text
            self.divergence_stack = traceback.extract_stack()

    def __repr__(self) -> str:
        return f"Replay({self._values!r})"


class Tape:
    """The choices of one run.

    `strategy` answers them, by default `Random(seed)`. `seed` (0 or more) also seeds the streams. `level` says which
    questions the simulation asks at all. Not safe to use from two threads at a time.
    """

    def __init__(self, strategy: Strategy | None = None, *, seed: int = 0, level: Level = Level.IO) -> None:
        checked_seed(seed)
        self.strategy: Strategy = Random(seed) if strategy is None else strategy
        self.seed = seed
        self.level: Level = Level(level)
        self.choices: list[Choice] = []
        self._streams: dict[str, random.Random] = {}

    def choose(self, n: int, label: str) -> int:
        """Choose from 0 to `n` - 1; 0 is what asyncio does. If `n` is 0 or 1, it returns 0 and records nothing.

        `label` names the kind of choice in a few words. It must be the same in every run: no ids, no addresses.
        """
        if n <= 1:
            return 0
        return self._record(n, label, ())

    def happens(self, probability: float, label: str) -> bool:
        """Choose whether something happens that has this probability, such as the loss of a packet.

        Random searches draw it with that probability; a strategy without a method `chance` answers as to `choose(2)`.
        """
        return self._kept(2, label, (), chance_of(self.strategy, probability, label)) == 1

    def pick(self, keys: Sequence[str], label: str) -> int:
        """Choose which of the actors `keys` goes next: an index into `keys`, which are in asyncio's order."""
        if len(keys) <= 1:
            return 0
        return self._record(len(keys), label, tuple(keys))

    def _record(self, n: int, label: str, keys: tuple[str, ...]) -> int:
        return self._kept(n, label, keys, self.strategy.next(n, label, keys))

    def _kept(self, n: int, label: str, keys: tuple[str, ...], value: int) -> int:
        if not 0 <= value < n:
            raise UsageError(f"{self.strategy!r} answered {value} to {label!r}; answer from 0 to {n - 1}")
        self.choices.append(Choice(label, n, value, keys))
        return value

    def stream(self, name: str) -> random.Random:
        """The random numbers of `name` ("network", "program"): one generator per name, independent of all others."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = stream(self.seed, name)
        return found

    @property
    def values(self) -> list[int]:
        """The answers alone, for `Replay` and `shrink`."""
        return [choice.value for choice in self.choices]

    @property
    def is_blank(self) -> bool:
        """Whether nothing was drawn: no choice and no number of a stream, so every seed gives the same run."""
        return not self.choices and all(
            used.getstate() == stream(self.seed, name).getstate() for name, used in self._streams.items()
        )

    @property
    def divergence(self) -> str | None:
        """Where a replay first differed from the earlier run; None if it did not, or on a tape that replays nothing."""
        return self.strategy.divergence if isinstance(self.strategy, Replay) else None

    def end(self) -> None:
        """Report that the run is over, so that a replay that ended too early counts as diverged."""
        if isinstance(self.strategy, Replay):
            self.strategy.end()

    def token(self) -> str:
        """This run as a word of letters, digits, "-" and "_", for `from_token` in any process."""
        numbers = [self.seed, self.level]
        last = 0
        for position, choice in enumerate(self.choices):
            if choice.value:
                numbers += [position - last, choice.value, choice.n, _check(choice.label)]
                last = position
        packed = zlib.compress(_pack(numbers), 9, wbits=-zlib.MAX_WBITS)
        body = zlib.crc32(packed).to_bytes(4, "big") + packed
        return _PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")

    @classmethod
    def from_token(cls, text: str) -> "Tape":
        """A tape that replays the run of `token`. Raises UsageError if `text` is not a token or was altered."""
        seed, level, *numbers = _decode(text)
        replay = Replay({})
        position = 0
        for gap, value, n, check in zip(*[iter(numbers)] * 4, strict=True):
            position += gap
            replay._values[position] = value
            replay._made[position] = _Made(n, check)
        return cls(replay, seed=seed, level=Level(level))

    def __repr__(self) -> str:
        changed = sum(1 for choice in self.choices if choice.value)
        return f"<Tape seed={self.seed} level={self.level.name} choices={len(self.choices)} changed={changed}>"


_PREFIX = "sim1_"  # the version of the format; a letter first, so that a command line takes no token for an option


def _decode(text: str) -> list[int]:
    if not isinstance(text, str):
        raise UsageError(f"a replay token is a string that starts with {_PREFIX!r}, not {text!r}")
    text = text.strip()
    version = re.match(r"sim(\d+)_", text)
    if version is None:
        raise UsageError(f"{text[:20]!r} is not a replay token: a token starts with {_PREFIX!r}; copy all of it")
    if version[0] != _PREFIX:
        raise UsageError(
            f"the replay token has format {version[1]}, this loopcore reads format {_PREFIX[3:-1]}; "
            "replay it with the loopcore that printed it"
        )
    encoded = text[len(_PREFIX) :]
    try:
        body = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except ValueError:
        body = b""
    if len(body) < 5 or zlib.crc32(body[4:]) != int.from_bytes(body[:4], "big"):
        raise UsageError("the replay token is damaged or cut off; copy all of it again, without spaces or line breaks")
    return _unpack(zlib.decompress(body[4:], wbits=-zlib.MAX_WBITS))


def _pack(numbers: Iterable[int]) -> bytes:
    """Numbers of 0 or more as LEB128: seven bits a byte, the lowest first, the high bit on all bytes but the last."""
    packed = bytearray()
    for number in numbers:
        while number > 0x7F:
            packed.append(number & 0x7F | 0x80)
            number >>= 7
        packed.append(number)
    return bytes(packed)


def _unpack(packed: bytes) -> list[int]:
    numbers: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    return numbers
