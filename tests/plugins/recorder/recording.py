"""What the tests of the recorder share: a run with a recorder, and its records as lines."""

import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from loopcore_plugins.recorder import Recorder
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.reading import Event, Recording, read

PATIENCE = 30.0
"""Seconds after which a test gives up."""


def quiet(tmp_path: Path, **options: Any) -> Recorder:
    """Return a recorder of 1 MiB that dumps on request, and for the reasons in `options`."""
    return Recorder(
        **{"size": 1, "stall": 0, "exceptions": False, "dumps": tmp_path / "dump-{pid}-{n}.rec", "every": 0} | options
    )


def record(loop: Any, tmp_path: Path, program: Callable[[], Coroutine[Any, Any, Any]]) -> Recording:
    """Run a program on `loop` with a recorder; return what was recorded."""
    recorder = quiet(tmp_path)
    loop.probes.register(recorder)
    loop.run_until_complete(program())
    recording = read(recorder.dump())
    assert recording.problems == []
    return recording


def of(recording: Recording, *kinds: Kind) -> list[Event]:
    return [event for event in recording.events if event.kind in kinds]


def named(recording: Recording, name: str, *kinds: Kind) -> list[Event]:
    """Return the events of these kinds, by default all, whose label has this name."""
    found = [event for event in recording.events if event.kind is not Kind.TICK]
    return [
        event
        for event in found
        if recording.label(event.label).name.split(".")[-1] == name and (not kinds or event.kind in kinds)
    ]


def story(recording: Recording, who: int, *kinds: Kind) -> list[str]:
    """Return the kinds of the records of one identity, in order."""
    return [event.kind.name for event in recording.events if event.who == who and (not kinds or event.kind in kinds)]


def written(tmp_path: Path, count: int) -> list[Path]:
    """Return the dumps, when the recorder's threads have written them."""
    for thread in threading.enumerate():
        if thread.name == "loopcore-recorder":
            thread.join(PATIENCE)
    found = sorted(tmp_path.glob("dump-*"), key=lambda path: int(path.stem.split("-")[-1]))
    assert len(found) == count
    assert [path.suffix for path in found] == [".rec"] * count  # no part is left
    return found
