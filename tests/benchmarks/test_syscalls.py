"""Counting system calls: the counts are right where they are known, and every obstacle is named."""

from __future__ import annotations

import shutil

import pytest

from loopcore_bench.loops import LoopSpec
from loopcore_bench.process import MeasurementError, NotInstalledError
from tests.benchmarks.harness.measure import NetBench, Settings
from tests.benchmarks.harness.native import NoCompilerError
from tests.benchmarks.harness.netrows import NET
from tests.benchmarks.harness.report import syscall_table
from tests.benchmarks.harness.rounds import count_all
from tests.benchmarks.harness.strace import Syscalls, parse_summary

SUMMARY = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.001000           1      1003         3 recvfrom
 40.00    0.000900           1      1000           sendto
------ ----------- ----------- --------- --------- ----------------
100.00    0.001900           1      2003         3 total
"""
FLOOR = LoopSpec("c", "c", None, "")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> NetBench:
    try:
        return NetBench(Settings(requests=50, warmup=0.0), tmp_path_factory.mktemp("native"))
    except NoCompilerError as error:
        pytest.skip(str(error))


def test_the_summary_of_strace_is_read_with_and_without_errors() -> None:
    assert parse_summary(SUMMARY) == {"recvfrom": 1003, "sendto": 1000}
    with pytest.raises(MeasurementError, match="counted nothing"):
        parse_summary("")


def test_counts_are_divided_by_requests_and_the_most_frequent_come_first() -> None:
    found = Syscalls("tcp-64-1", "c", 1000, {"sendto": 1000, "recvfrom": 1003, "close": 1})
    assert found.total == 2.004
    assert list(found.per_request()) == ["recvfrom", "sendto", "close"]
    text = syscall_table([found, Syscalls("tcp-64-1", "x", skipped="no strace")])
    assert "recvfrom 1.00, sendto 1.00, close 0.001" in text
    assert "skipped: no strace" in text


def test_a_request_of_the_floor_is_one_receive_and_one_send(net: NetBench) -> None:
    (found,) = count_all([NET["tcp-1k-1"]], [FLOOR], net, lambda result: None)
    if found.skipped:
        pytest.skip(found.skipped)
    assert found.error is None
    assert found.calls is not None
    assert found.requests == 50
    assert (found.calls["recvfrom"], found.calls["sendto"]) == (50, 50)
    assert "close" not in found.calls  # the ends of connections are not counted


def test_without_strace_a_row_is_skipped_with_the_reason(net: NetBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotInstalledError, match="no strace"):
        net.count_syscalls(NET["tcp-64-1"], FLOOR)
