"""The stream of hook calls by which backends are compared has everything in it.

That each backend makes the stream of a built-in one is in its contract: `loopcore.testing.conformance.loop.hooks`.
"""

import re
import sys
from collections.abc import Sequence

import pytest

from loopcore.hooks import specs as hookspecs
from loopcore.testing.hooks import stream
from loopcore.testing.hooks.recorder import HOOKS
from loopcore_backends.select_ import SelectBackend

pytestmark = [
    pytest.mark.loopcore_only,
    pytest.mark.skipif(sys.platform != "linux", reason="the ends of children are told by pidfds, in the reference"),
]

ELSEWHERE = {
    "loopcore_fork_child",  # not in this process
    "loopcore_plugin_unregistered",  # nothing takes the recorder out
    "loopcore_slow_callback",  # real time
    "loopcore_stall_begin",  # a watchdog's
    "loopcore_stall_end",
}
"""Hooks that the program does not cause; their tests are beside this one, and the watchdog's."""


@pytest.fixture(scope="module", params=["select", "proactor"])
def recorded(request: pytest.FixtureRequest) -> list[str]:
    return stream.record(request.param)


def test_the_stream_has_every_hook(recorded: list[str]) -> None:
    named = {f"loopcore_{line.split()[0]}" for line in recorded}
    assert set(HOOKS) - named == ELSEWHERE


def test_every_kind_of_transport_opens_and_closes(recorded: list[str]) -> None:
    for event in ("opened", "closed"):
        kinds = {match[1] for line in recorded if (match := re.match(rf"transport_{event} .*transport=(\w+):", line))}
        assert kinds == {
            "StreamTransport", "DatagramTransport", "ReadPipeTransport", "WritePipeTransport", "ProcessTransport",
        }  # fmt: skip


def test_a_backend_that_hides_an_event_for_one_wait_makes_another_stream() -> None:
    class Hesitant(SelectBackend):
        hesitated = False

        def wait(self, timeout: float | None) -> Sequence[tuple[int, int]]:
            events = super().wait(timeout)
            if events and not self.hesitated:
                self.hesitated = True
                return ()
            return events

    assert stream.record(Hesitant()) != stream.record("select")


def test_only_polls_that_wait_for_nothing_and_find_nothing_are_left_out() -> None:
    found = [line.replace("events=0", "events=1") for line in stream.VAIN_POLL]
    waited = [line.replace("0.000000", "None") for line in stream.VAIN_POLL]
    assert stream.without_vain_polls([*found, *stream.VAIN_POLL, *waited, *stream.VAIN_POLL]) == [*found, *waited]


def test_hot_hooks_are_watched_in_one_group_each() -> None:
    grouped = [hook for hooks in hookspecs.GROUPS.values() for hook in hooks]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) <= set(HOOKS)
