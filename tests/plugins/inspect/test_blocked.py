"""What inspect reports of a blocked loop, where there is no GIL to hold its tasks still."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import loopcore
from loopcore_plugins import _tasktree
from loopcore_plugins.inspect.protocol import ProtocolError
from loopcore_plugins.inspect.subject import Subject


class Blocked:
    """A loop in a thread, whose task `blocker` blocks it until `go` is set; `other` waits."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.ids: dict[str, int] = {}
        self.subject: Subject
        self.end_of_other = ""
        self._is_blocked = threading.Event()
        self._thread = threading.Thread(target=loopcore.run, args=(self._main(),))

    async def _main(self) -> None:
        self.subject = Subject(asyncio.get_running_loop(), 1, None)
        self.subject.moved()
        waiting = asyncio.create_task(asyncio.sleep(3600), name="other")
        await asyncio.sleep(0)
        blocker = asyncio.create_task(self._block(), name="blocker")
        self.ids = {task.get_name(): id(task) for task in (blocker, waiting)}
        await blocker
        try:
            await asyncio.wait_for(waiting, 0.01)
        except (asyncio.CancelledError, TimeoutError) as error:
            self.end_of_other = repr(error)

    async def _block(self) -> None:
        self._is_blocked.set()
        self.go.wait(30)

    def __enter__(self) -> "Blocked":
        self._thread.start()
        assert self._is_blocked.wait(30)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Unblock the loop, and wait for its end."""
        self.go.set()
        self._thread.join()


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocked]:
    monkeypatch.setattr(_tasktree, "has_gil", lambda: False)
    monkeypatch.setattr(_tasktree, "BLOCKED_AFTER", 0.01)
    with Blocked() as blocked:
        yield blocked


def test_only_the_running_task_is_described(blocked: Blocked) -> None:
    answer = blocked.subject.answer(None, {"ask": "ps"})
    assert [task["name"] for task in answer["tasks"]] == ["blocker"]
    assert answer["left_out"] == 2  # `other`, and the task of `_main`
    assert answer["running"]
    assert not answer["waiting"]


def test_the_others_are_counted(blocked: Blocked) -> None:
    assert blocked.subject.answer(None, {"ask": "sample"})["tasks"] == {"Blocked._block": 1, "(not read)": 2}


def test_another_task_is_said_to_be_unreadable(blocked: Blocked) -> None:
    with pytest.raises(ProtocolError, match="is blocked, and without the GIL only its running task"):
        blocked.subject.answer(None, {"ask": "task", "task": blocked.ids["other"]})


def test_a_task_is_cancelled_when_the_loop_goes_on(blocked: Blocked) -> None:
    answer = blocked.subject.answer(None, {"ask": "cancel", "task": blocked.ids["other"]})
    assert answer["name"] == "other"
    blocked.end()
    assert blocked.end_of_other == "CancelledError('cancelled by loopcore inspect')"
