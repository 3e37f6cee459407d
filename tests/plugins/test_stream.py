"""The references of the stream of hook calls have everything in them.

That each backend keeps to them, the pure build as the compiled one and on every Python, is a part of its contract:
`loopcore.testing.conformance.loop.hooks`.
"""

import re
import sys

import pytest

from loopcore import hookspecs
from loopcore.testing.hooks import stream
from loopcore.testing.hooks.recorder import HOOKS

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


@pytest.fixture(params=stream.REFERENCES, ids=["readiness", "completions", "polls"])
def reference(request: pytest.FixtureRequest) -> list[str]:
    text: str = request.param.read_text(encoding="utf-8")
    return text.splitlines()


def test_the_reference_has_every_hook(reference: list[str]) -> None:
    named = {f"loopcore_{line.split()[0]}" for line in reference}
    assert set(HOOKS) - named == ELSEWHERE


def test_every_kind_of_transport_opens_and_closes(reference: list[str]) -> None:
    for event in ("opened", "closed"):
        kinds = {match[1] for line in reference if (match := re.match(rf"transport_{event} .*transport=(\w+):", line))}
        assert kinds == {
            "StreamTransport", "DatagramTransport", "ReadPipeTransport", "WritePipeTransport", "ProcessTransport",
        }  # fmt: skip


def test_hot_hooks_are_watched_in_one_group_each() -> None:
    grouped = [hook for hooks in hookspecs.GROUPS.values() for hook in hooks]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) <= set(HOOKS)
