"""The plugin `strict`: a dropped exception or coroutine ends the run, or is told as one wishes."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy import Strict, StrictFailure

pytestmark = [pytest.mark.loopcore_only, pytest.mark.reports_errors]

Program = Callable[[], Coroutine[Any, Any, str]]


@pytest.fixture(autouse=True)
def _interpreter_as_before() -> Iterator[None]:
    before = warnings._warn_unawaited_coroutine, sys.get_coroutine_origin_tracking_depth()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
    after = warnings._warn_unawaited_coroutine, sys.get_coroutine_origin_tracking_depth()  # type: ignore[attr-defined]
    assert after == before


async def save() -> None:
    raise OSError("disk full")


async def fails_unseen() -> str:
    task = asyncio.create_task(save())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    for _ in range(10):
        await asyncio.sleep(0)
    return "all is well"


async def forgets_await() -> str:
    save()  # type: ignore[unused-coroutine]
    for _ in range(10):
        await asyncio.sleep(0)
    return "all is well"


async def forgets_await_in_a_cycle() -> str:
    cycle: list[Any] = [save()]
    cycle.append(cycle)
    return "all is well"


@pytest.mark.parametrize("program", [fails_unseen, forgets_await])
def test_without_it_the_program_seems_to_succeed(backend_name: str, program: Program) -> None:
    assert loopcore.run(program(), backend=backend_name) == "all is well"


@pytest.mark.parametrize("program", [fails_unseen, forgets_await, forgets_await_in_a_cycle])
def test_with_it_the_run_fails(backend_name: str, program: Program) -> None:
    strict = Strict()
    with pytest.raises(StrictFailure) as failure:
        loopcore.run(program(), backend=backend_name, plugins=[strict])
    (mistake,) = failure.value.mistakes
    assert list(strict.mistakes) == [mistake]
    if program is fails_unseen:
        assert isinstance(failure.value.__cause__, OSError)
        assert "exception was never retrieved" in str(failure.value)
    else:
        place = f"it was created at {__file__}:{program.__code__.co_firstlineno + 1}, in {program.__name__}"
        assert str(failure.value) == f"coroutine 'save' was never awaited; {place}"


def test_the_failure_ends_the_run_where_it_is_not_where_the_program_would_end(backend_name: str) -> None:
    ran: list[str] = []

    async def serve_for_ever() -> None:
        save()  # type: ignore[unused-coroutine]
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("cleaned up")

    with pytest.raises(StrictFailure):
        loopcore.run(serve_for_ever(), backend=backend_name, plugins=[Strict()])
    assert ran == ["cleaned up"]


def test_every_mistake_of_a_run_is_named_and_raised_once(backend_name: str) -> None:
    strict = Strict()

    async def program() -> None:
        for _ in range(3):
            save()  # type: ignore[unused-coroutine]
        try:
            await asyncio.sleep(10)
        finally:
            save()  # type: ignore[unused-coroutine]

    with pytest.raises(StrictFailure) as failure:
        loopcore.run(program(), backend=backend_name, plugins=[strict])
    assert len(failure.value.mistakes) == 3
    assert strict.count == 4


def test_a_program_without_mistakes_succeeds(backend_name: str) -> None:
    strict = Strict()

    async def program() -> str:
        task = asyncio.create_task(save())
        with pytest.raises(OSError, match="disk full"):
            await task
        await asyncio.gather(save(), return_exceptions=True)
        return "all is well"

    assert loopcore.run(program(), backend=backend_name, plugins=[strict]) == "all is well"
    assert strict.count == 0


@pytest.mark.parametrize("program", [fails_unseen, forgets_await])
def test_log_writes_an_error_whatever_the_handler_does(
    backend_name: str, program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    async def deaf() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        return await program()

    assert loopcore.run(deaf(), backend=backend_name, plugins=[Strict(action="log")]) == "all is well"
    (record,) = [each for each in caplog.records if each.name == "loopcore.plugin.strict"]
    assert record.levelno == logging.ERROR
    assert bool(record.exc_info and record.exc_info[0] is OSError) == (program is fails_unseen)


def test_no_exception_is_kept_that_is_not_raised(backend_name: str) -> None:
    strict = Strict(action="log")
    assert loopcore.run(fails_unseen(), backend=backend_name, plugins=[strict]) == "all is well"
    (mistake,) = strict.mistakes
    assert mistake.exception is None


@pytest.mark.parametrize("program", [fails_unseen, forgets_await])
def test_report_tells_the_exception_handler_once(backend_name: str, program: Program) -> None:
    contexts: list[dict[str, Any]] = []

    async def listening() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: contexts.append(context))
        return await program()

    assert loopcore.run(listening(), backend=backend_name, plugins=[Strict(action="report")]) == "all is well"
    (context,) = contexts
    assert "was never" in context["message"]
    contexts.clear()  # they hold the future, and it its loop


@pytest.mark.parametrize(
    ("program", "options"), [(fails_unseen, {"exceptions": False}), (forgets_await, {"coroutines": False})]
)
def test_each_can_be_left_out(backend_name: str, program: Program, options: dict[str, bool]) -> None:
    assert loopcore.run(program(), backend=backend_name, plugins=[Strict(**options)]) == "all is well"


def test_of_two_loops_the_one_that_runs_in_the_thread_is_blamed(backend_name: str) -> None:
    guilty, innocent = Strict(), Strict()
    made, done = threading.Event(), threading.Event()

    async def wait() -> None:
        made.set()
        await asyncio.to_thread(done.wait, 30)

    thread = threading.Thread(target=lambda: loopcore.run(wait(), backend=backend_name, plugins=[innocent]))
    thread.start()
    made.wait(30)
    try:
        with pytest.raises(StrictFailure):
            loopcore.run(forgets_await(), backend=backend_name, plugins=[guilty])
    finally:
        done.set()
        thread.join()
    assert (guilty.count, innocent.count) == (1, 0)


def test_filters_of_warnings_do_not_matter(backend_name: str) -> None:
    unraisable: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(StrictFailure):
                loopcore.run(forgets_await(), backend=backend_name, plugins=[Strict()])
    finally:
        sys.unraisablehook = hook
    assert len(unraisable) == 1
    unraisable.clear()


def test_taken_out_at_run_time_it_looks_no_longer(backend_name: str) -> None:
    strict = Strict()

    async def program() -> str:
        probes: Any = asyncio.get_running_loop().probes  # type: ignore[attr-defined]
        probes.register(strict)
        assert sys.get_coroutine_origin_tracking_depth() == 1
        probes.unregister(strict)
        assert sys.get_coroutine_origin_tracking_depth() == 0
        return await forgets_await()

    assert loopcore.run(program(), backend=backend_name) == "all is well"
    gc.collect()
    assert strict.count == 0


def test_more_frames_that_the_program_records_stay(backend_name: str) -> None:
    async def program() -> int:
        return sys.get_coroutine_origin_tracking_depth()

    sys.set_coroutine_origin_tracking_depth(2)
    try:
        assert loopcore.run(program(), backend=backend_name, plugins=[Strict(origins=1)]) == 2
    finally:
        sys.set_coroutine_origin_tracking_depth(0)


def test_an_unknown_action_is_an_error() -> None:
    with pytest.raises(UsageError, match="action must be one of stop, report, log, not 'panic'"):
        Strict(action="panic")


@pytest.mark.parametrize("origins", [-1, 1 << 31])
def test_a_number_of_frames_that_cannot_be_kept_is_an_error(origins: int) -> None:
    with pytest.raises(UsageError, match="origins must be a number of frames"):
        Strict(origins=origins)


def test_not_caught_it_ends_the_program_with_status_one(backend_name: str) -> None:
    program = (
        "import asyncio, loopcore\n"
        "async def save(): ...\n"
        "async def main():\n"
        "    save()\n"
        "    await asyncio.sleep(10)\n"
        f"loopcore.run(main(), backend={backend_name!r}, plugins='strict')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, check=False, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "coroutine 'save' was never awaited; it was created at <string>:4, in main" in ended.stderr
