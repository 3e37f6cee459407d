"""Export: a recording as a trace that Perfetto, chrome://tracing and speedscope open, by the writer of `trace`."""

from itertools import count, pairwise
from pathlib import Path

from loopcore_plugins.recorder.model import Model, Step, Task, Wait
from loopcore_plugins.trace.records import FIRST_TASK_TRACK, LOOP_TRACK, Arrow, Mark, Record, Slice
from loopcore_plugins.trace.records import Step as TraceStep
from loopcore_plugins.trace.writer import write_trace


def export(model: Model, path: Path) -> Path:
    """Write the trace to `path`; `.gz` at its end compresses it. Raises OSError."""
    recording = model.recording
    records, threads = records_of(model)
    title = f"loop on {recording.facts.get('backend', 'an unknown backend')}"
    return write_trace(path, records, title=title, threads=threads, dropped=recording.dropped, process=recording.pid)


def records_of(model: Model) -> tuple[list[Record], dict[int, str]]:
    """Return the records of the trace, and the names of its tracks for threads."""
    numbers = count(FIRST_TASK_TRACK)
    tracks = {id(task): next(numbers) for task in model.tasks}
    threads: dict[int, str] = {}
    free: dict[int, int] = {}  # by track: when its last job ended
    records: list[Record] = list(_ticks(model))
    for span in model.spans:
        if isinstance(span, Wait):
            records.append(Slice(LOOP_TRACK, "wait", "phase", span.begin, span.end, {"events": span.events}))
            continue
        track = LOOP_TRACK if span.task is None else tracks[id(span.task)]
        if span.task is None:
            records.append(Slice(LOOP_TRACK, span.label.name, "callback", span.begin, span.end))
        else:
            outcome = span.task.outcome if span.finishes else "suspended"
            records.append(
                TraceStep(track, span.task.name, span.label.name, span.begin, span.end, outcome or "finished")
            )
        records += _arrow(span, track, tracks)
    for job in sorted(model.jobs, key=lambda job: job.started):
        if not job.started or job.ended < job.started:
            continue
        same = (track for track, name in threads.items() if name == job.thread and free[track] <= job.started)
        track = next(same, LOOP_TRACK + 1 + len(threads))  # threads of two pools may have the same name
        threads[track], free[track] = job.thread, job.ended
        records.append(Slice(track, job.label.name, "job", job.started, job.ended, {"failed": job.failed}))
        if job.by is not None and job.submitted <= job.started:
            records.append(Arrow("submitted", _track(job.by.task, tracks), job.submitted, track, job.started))
    records += [Mark(LOOP_TRACK, "exception", "error", at, {"message": label.name}) for at, label in model.errors]
    return records, threads


def _ticks(model: Model) -> list[Slice]:
    waits = [span for span in model.spans if isinstance(span, Wait)]
    ticks = [Slice(LOOP_TRACK, "tick", "tick", earlier.end, later.end) for earlier, later in pairwise(waits)]
    if model.spans:
        first, last = model.spans[0].begin, model.spans[-1].end
        if waits and first < waits[0].end:
            ticks.insert(0, Slice(LOOP_TRACK, "tick", "tick", first, waits[0].end))
        begin = waits[-1].end if waits else first
        if begin < last:
            ticks.append(Slice(LOOP_TRACK, "tick", "tick", begin, last))
    return ticks


def _track(task: Task | None, tracks: dict[int, int]) -> int:
    return LOOP_TRACK if task is None else tracks[id(task)]


def _arrow(step: Step, track: int, tracks: dict[int, int]) -> list[Arrow]:
    wake = step.wake
    if wake is None or wake.by is None:
        return []
    return [Arrow("woken", _track(wake.by.task, tracks), wake.at, track, step.begin)]
