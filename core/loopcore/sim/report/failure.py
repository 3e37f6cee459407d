"""The text of a failure: what went wrong, in which order things happened, and how to see it again."""

import traceback
from collections.abc import Iterable, Iterator, Sequence

from loopcore.sim.log import LogEntry
from loopcore.sim.report.messages import label_of
from loopcore.sim.tape import Choice
from loopcore.sim.waiting import is_library
from loopcore.text import printable


def failure_text(
    error: BaseException,
    *,
    choices: Sequence[str] | None = None,
    log: Sequence[LogEntry] = (),
    replay: str = "",
    entries: int = 20,
) -> str:
    """Return the report of a failed run, several lines.

    `choices` are those that differ from asyncio's order, in words (`in_words`); None if they are not known. The last
    `entries` of `log` are shown. `replay` is the command that repeats the run.
    """
    sections = [list(_error_lines(error))]
    if choices:
        title = "This choice differs" if len(choices) == 1 else f"These {len(choices)} choices differ"
        numbered = (f"  {number}. {printable(choice)}" for number, choice in enumerate(choices, 1))
        sections.append([f"{title} from asyncio's order:", *numbered])
    elif choices is not None:
        sections.append(["No choice differs from asyncio's order: the failure needs no special order of events."])
    if log and entries > 0:
        shown = log[-entries:]
        title = f"The last {len(shown)} of {len(log)} events" if len(shown) < len(log) else "The events"
        sections.append([f"{title}, in seconds of simulated time:", *_log_lines(shown)])
    if replay:
        sections.append(["Run it again:", f"  {replay}"])
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def in_words(choices: Iterable[Choice]) -> list[str]:
    """Return a sentence for each choice that differs from asyncio's.

    `pick` names what could have gone next, so its choice reads "the reply to bar went before the reply to foo". A
    choice between two is a yes: its label says what happened. A label that ends with a colon and the names of the
    answers, with or without that of 0, gives the name: "fault: a crash, a pause" reads "fault: a pause".
    """
    return [_choice_in_words(choice) for choice in choices if choice.value]


def _choice_in_words(choice: Choice) -> str:
    if len(choice.keys) > choice.value:
        *others, last = choice.keys[: choice.value]
        overtaken = f"{', '.join(others)} and {last}" if others else last
        return f"{choice.label}: {choice.keys[choice.value]} went before {overtaken}"
    if choice.n <= 2:
        return choice.label
    question, colon, answers = choice.label.rpartition(": ")
    names = answers.split(", ")
    if colon and 0 <= choice.n - len(names) <= 1:
        return f"{question}: {names[choice.value - choice.n + len(names)]}"
    return f"{choice.label}: {choice.value}, where asyncio has 0 and the most is {choice.n - 1}"


def _error_lines(error: BaseException, indent: str = "") -> Iterator[str]:
    summary = "".join(traceback.TracebackException(type(error), error, None).format_exception_only())
    if isinstance(error, BaseExceptionGroup):
        summary = f"{type(error).__name__}: {error}"
    yield from (indent + printable(line) for line in summary.rstrip("\n").split("\n"))
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [each for each in frames if not is_library(each[0])] or frames
    if own:
        frame, line = own[-1]
        yield f"{indent}  at {printable(frame.f_code.co_filename)}:{line}, in {printable(frame.f_code.co_qualname)}"
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _error_lines(inner, indent + "    ")


def _log_lines(log: Sequence[LogEntry]) -> Iterator[str]:
    width = max(len(printable(entry.host)) for entry in log)
    for entry in log:
        to = {"send": " to ", "arrive": " from "}.get(entry.kind, ", ") + printable(entry.peer) if entry.peer else ""
        verb = f"{entry.kind} " if entry.kind in ("send", "arrive") else ""
        yield f"  {entry.when:12.6f}  {printable(entry.host):{width}}  {verb}{label_of(entry)}{to}"
