"""Recording: watch a loop for some time, then write the page."""

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from loopcore.errors import UsageError
from loopcore_plugins.inspect.client import Client, GoneError, connect
from loopcore_plugins.inspect.figures import compare
from loopcore_plugins.inspect.observer import PARTS
from loopcore_plugins.inspect.page.contents import describe, make_page
from loopcore_plugins.inspect.places import Address
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.inspect.sampler import sites_of, watch

FRAMES: Final = 60
"""The number of samples; fewer in a short time, because under a tenth of a second a sample means little."""
SHORTEST: Final = 0.1


def record(address: Address, path: Path, seconds: float, tell: Callable[[float], None]) -> None:
    """Watch the loop at `address` for `seconds`, or until it ends, and write the page to `path`.

    `tell` is called now and then with the seconds that have passed.

    Raises GoneError if it ends before there are two samples, UsageError if the file cannot be written.
    """
    with connect(address) as client:
        watch(client, *PARTS)
        text = recorded(client, seconds, tell)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from None


def recorded(client: Client, seconds: float, tell: Callable[[float], None] = lambda _: None) -> str:
    """Return the page of the next `seconds` of a loop. Raises GoneError as `record`."""
    samples = _take_samples(client, seconds, tell)
    frames = [compare(earlier, later) for earlier, later in pairwise(samples)]
    return make_page(describe(client.greeting, frames, compare(samples[0], samples[-1]), sites_of(client)))


def _take_samples(client: Client, seconds: float, tell: Callable[[float], None]) -> list[Message]:
    samples: list[Message] = []
    interval = max(SHORTEST, seconds / FRAMES)
    begin = time.monotonic()
    try:
        while not samples or time.monotonic() < begin + seconds or len(samples) < 2:
            time.sleep(max(begin + interval * (len(samples) + 1) - time.monotonic(), 0.0))
            samples.append(client.ask("sample"))
            tell(time.monotonic() - begin)
    except GoneError:
        if len(samples) < 2:
            raise
    return samples
