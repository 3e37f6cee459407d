"""The hook calls of one program, their order and what they say, are the same everywhere.

The reference is in the repository, so what is compared are not only the backends of one run: the pure build and the
compiled one, and every Python, are held to the same text.
"""

import re
import sys

import pytest

from loopcore import hookspecs
from tests.plugins import stream
from tests.plugins.recorder import HOOKS

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


@pytest.fixture(params=stream.REFERENCES, ids=["readiness", "completions"])
def reference(request: pytest.FixtureRequest) -> list[str]:
    text: str = request.param.read_text(encoding="utf-8")
    return text.splitlines()


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_stream_is_that_of_the_reference(backend_name: str, time: str) -> None:
    reference = stream.reference_of(backend_name).read_text(encoding="utf-8")
    assert stream.record(backend_name) == reference.splitlines()


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
