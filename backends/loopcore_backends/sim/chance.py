"""Random numbers of the program, all from the tape's stream "program", and other numbers that vary between runs.

The module `random` gets another global generator. `secrets`, `random.SystemRandom` and `uuid.uuid4` read `os.urandom`,
which reads the stream, as does a `random.Random` that is made without a seed. Not replaced: the random numbers
that OpenSSL uses in a TLS handshake, and NumPy's.
"""

import itertools
import os
import random
import sys
import tempfile
import threading
import uuid
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from loopcore_backends.sim.replacing import Replacement

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_seed = random.Random.seed
# The functions of the module `random` are methods of one generator.
_GENERATOR: random.Random = random.random.__self__  # type: ignore[attr-defined]
_METHODS = [name for name, value in vars(random).items() if getattr(value, "__self__", None) is _GENERATOR]


def replacements(world: "World") -> list[Replacement]:
    """Sources of random numbers, and the state of modules that count or remember numbers."""
    stream = world.tape.stream("program")

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        _seed(self, stream.getrandbits(256) if a is None else a, version)

    def seed_generator(a: Any = None, version: int = 2) -> None:
        seed(generator, a, version)

    def getrandom(size: int, flags: int = 0) -> bytes:
        return stream.randbytes(size)

    def rand_bytes(n: int, /) -> bytes:
        return stream.randbytes(n)

    def node() -> int:
        # The multicast bit marks a node that has no hardware address (RFC 9562, section 6.10).
        return int.from_bytes(blake2b(world.host.name.encode(), digest_size=6).digest()) | 1 << 40

    generator = world.tape.stream("random")
    places: list[Replacement] = [
        *((random, name, getattr(generator, name)) for name in _METHODS if name != "seed"),
        (random, "seed", seed_generator),
        (random, "_inst", generator),
        (random.Random, "seed", seed),
        (os, "urandom", stream.randbytes),
        (os, "getrandom", getrandom),
        (sys.modules.get("ssl"), "RAND_bytes", rand_bytes),  # Python may have been built without it
        (uuid, "getnode", node),
        (uuid, "_generate_time_safe", None),  # uuid1() then computes it in Python
        *((uuid, name, None) for name in vars(uuid) if name.startswith("_last_timestamp")),
        (uuid, "_last_counter_v7", 0),
        (tempfile, "_name_sequence", None),
        (threading, "_counter", itertools.count(1).__next__),
        (os, "getppid", lambda: 1),
    ]
    return [place for place in places if hasattr(place[0], place[1])]
