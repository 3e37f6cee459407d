"""The commands `loopcore dump` and `record`: entry points in the group `loopcore.commands`."""

import argparse
import time
from pathlib import Path
from typing import Final

from loopcore.errors import UsageError, check_writable
from loopcore_plugins.attach.injection import NotReachedError, attached
from loopcore_plugins.attach.reports import chosen
from loopcore_plugins.inspect.client import GoneError
from loopcore_plugins.inspect.commands import GROUP, seconds
from loopcore_plugins.inspect.places import pid_and_number
from loopcore_plugins.recorder.files import refuse_other_file, write_recording

_AT_LEAST: Final = 1.0
"""Seconds that `dump` records where no recorder is on."""
_WRITING: Final = 20.0
"""Seconds to wait for a loop, and for the file, in addition to the recording."""


def dump(parser: argparse.ArgumentParser) -> None:
    """Write what the recorder of a running process has recorded to a file."""
    _add_arguments(parser)
    parser.set_defaults(act=lambda arguments: _record(arguments, "dump", None), group=GROUP)


def record(parser: argparse.ArgumentParser) -> None:
    """Record a running process for some seconds, and write the recording to a file."""
    _add_arguments(parser)
    parser.add_argument("--seconds", type=seconds, default=10.0, metavar="N", help="how long (default: 10)")
    parser.set_defaults(act=lambda arguments: _record(arguments, "record", arguments.seconds), group=GROUP)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", metavar="PID", help="a process number, or PID.NUMBER for one loop of several")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: loopcore-PID-DATE-TIME.rec")


def _record(arguments: argparse.Namespace, command: str, duration: float | None) -> int:
    wish: str = arguments.pid
    named = pid_and_number(wish)
    if named is None:
        raise UsageError(f"{wish!r} is not a process number, nor PID.NUMBER")
    pid, _ = named
    output: Path = arguments.output or Path(f"loopcore-{pid}-{time.strftime('%Y%m%d-%H%M%S')}.rec")
    check_writable(output)
    try:
        refuse_other_file(output)
    except OSError as exc:
        raise _not_written(output, exc) from None
    try:
        with attached(pid, command) as agent:
            found = chosen(agent, wish)
            if len(found) != 1:
                which = ", ".join(f"{pid}.{each['loop']}" for each in found)
                raise UsageError(
                    f"which loop? there are {which}" if found else f"process {pid} runs no asyncio loop now"
                )
            if not found[0]["backend"].startswith("loopcore "):
                raise UsageError(
                    f"process {pid} runs the loop of {found[0]['backend']}, and only loopcore's has a recorder; "
                    f"for any loop there are: loopcore ps {pid}, loopcore stacks {pid}, loopcore top {pid}"
                )
            was_on = agent.ask("recorder", found[0]["loop"])
            if duration is None:
                duration = 0.0 if was_on else _AT_LEAST
            where = agent.folder / "recording"
            agent.ask("record", found[0]["loop"], f"{duration} {where}", _WRITING + duration)
            recording = agent.take(where.name)
    except NotReachedError as exc:
        raise UsageError(f"{exc}; to see where it is: loopcore stacks {pid}") from None
    except GoneError as exc:
        raise UsageError(f"{exc}; nothing is written") from None
    except OSError as exc:
        raise UsageError(f"process {pid} cannot be recorded: {exc}") from None
    try:
        write_recording(output, recording)
    except OSError as exc:
        raise _not_written(output, exc) from None
    print(f"{output} is written: {_what(was_on, duration)}; to read it: loopcore why {output}")
    return 0


def _not_written(output: Path, exc: OSError) -> UsageError:
    why = exc.strerror or exc  # its file name may be another
    return UsageError(f"{output} cannot be written: {why}; choose another file with --output")


def _what(was_on: bool, seconds: float) -> str:
    return "what the recorder had recorded" if was_on else f"{seconds:g} s, with a recorder that is off again"
