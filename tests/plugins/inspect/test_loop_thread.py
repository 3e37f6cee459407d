"""What the loop's thread gets of the processor, and the estimate of waits for the GIL."""

import sys
import threading
import time
from pathlib import Path

import pytest

from loopcore.build_info import has_gil
from loopcore_plugins.inspect import loop_thread
from loopcore_plugins.inspect.figures import compare
from loopcore_plugins.inspect.loop_thread import LoopThread, run_queue_ns
from tests.plugins.inspect.processes import SERVER, client_of, running, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="the figures are Linux's")


@linux
def test_the_clock_of_another_thread_is_read() -> None:
    thread, done = LoopThread(), threading.Event()

    def compute() -> None:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        thread.follow()
        done.wait(30)

    worker = threading.Thread(target=compute)
    worker.start()
    try:
        until(lambda: thread.native_id == worker.native_id, "it follows the thread")
        view = thread.view()
        assert view["cpu_ns"] >= 20_000_000
        assert view["gil"] is None
    finally:
        done.set()
        worker.join()
    until(lambda: thread.view()["run_queue_ns"] is None, "the system has ended it, too")
    thread.probe()
    assert thread.view()["gil"] is None


@linux
@pytest.mark.skipif(not has_gil(), reason="there is no GIL")
def test_a_thread_that_computes_makes_others_wait_for_the_gil() -> None:
    thread, ending = LoopThread(), threading.Event()

    def compute() -> None:
        while not ending.is_set():
            sum(range(1000))

    prober = threading.Thread(target=lambda: until(lambda: [thread.probe(), thread.view()["gil"]["ns"]][1], "it waits"))
    worker = threading.Thread(target=compute)
    worker.start()
    prober.start()  # the thread under test sleeps meanwhile, as a loop in its wait
    prober.join()
    ending.set()
    worker.join()
    gil = thread.view()["gil"]
    assert 0 < gil["longest_ns"] <= gil["ns"]


def test_a_kernel_without_the_statistics_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for text, expected in (("5000 300 2\n", 300), ("0 0 0\n", None), ("", None), ("none here", None)):
        (tmp_path / "schedstat").write_text(text)
        monkeypatch.setattr(loop_thread, "open", lambda path, *args, **kw: (tmp_path / "schedstat").open("rb"), False)
        assert run_queue_ns(1) == expected


@linux
def test_the_shares_of_a_loop_that_blocks_add_up(folder: Path) -> None:
    with running(folder, SERVER, "blocking") as process, client_of(process) as client:
        client.ask("watch", parts=["meter"])
        first = until(lambda: (sample := client.ask("sample"))["meter"] and sample, "it is measured")
        until(lambda: client.ask("sample")["stalls"]["past"], "a stall is over")
        frame = compare(first, client.ask("sample"))
    thread = frame.thread
    assert thread.cpu is not None
    assert thread.off_cpu is not None
    assert 0.0 < thread.cpu < 1.0
    assert thread.off_cpu > 0.0
    assert thread.cpu + (thread.run_queue or 0.0) + thread.off_cpu <= 1.001
