"""The programs of this folder, small: they work, and what they show at length is so in short as well."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from tests.backends.ports import available_backends
from tests.soak.children import make_loop, rounds
from tests.soak.hostile import ROOT, attack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")


@pytest.mark.parametrize("watch", ["pidfd", "thread"])
def test_children_at_once_lose_no_byte_and_no_code(backend_name: str, watch: str, made_loops: Any) -> None:
    def make() -> asyncio.AbstractEventLoop:
        loop = make_loop(backend_name, watch)
        made_loops.add(loop)
        return loop

    with asyncio.Runner(loop_factory=make) as runner:
        assert runner.run(rounds(count=20, times=2)) > 0


@pytest.mark.loopcore_only
def test_random_traffic_arrives_whole_whatever_the_collector_does(backend_name: str) -> None:
    command = [sys.executable, "-m", "tests.soak.traffic", backend_name, "--seconds", "2", "--workers", "8"]
    ran = subprocess.run([*command, "--patience", "30"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def withstand(server: str, backend: str) -> None:
    outcome = asyncio.run(attack(server, backend, seconds=1.0))
    if backend == "asyncio":
        outcome.complaints = ""  # it tells a protocol twice that its connection is lost, and fails at that
    assert outcome.faults() == []
    assert outcome.attacks > 0


def test_streams_withstand_hostile_clients(backend_name: str) -> None:
    withstand("streams", backend_name)


def test_uvicorn_withstands_hostile_clients() -> None:
    withstand("uvicorn", available_backends()[0])


def test_aiohttp_withstands_hostile_clients() -> None:
    withstand("aiohttp", available_backends()[0])
