"""The report of a run of the contract: guarantee by guarantee, as lines, as JSON, as a badge."""

import platform
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

import loopcore
from loopcore.build_info import describe_build
from loopcore.selection.catalogue import path_of
from loopcore.testing.guarantees import GUARANTEES, Guarantee

KEPT: Final = "kept"
BROKEN: Final = "broken"
CANNOT: Final = "cannot"
UNCHECKED: Final = "not checked"
GOOD: Final = "#2e7d32"
BAD: Final = "#c62828"
UNDECIDED: Final = "#6b6b6b"


class Outcome(NamedTuple):
    """How a test ended: `passed`, `failed` or `skipped`; the reason; and after how many seconds."""

    outcome: str
    reason: str
    seconds: float


class Report:
    """The state of each guarantee, from the outcomes of tests. `partial` if only some were requested."""

    def __init__(self, backend: str, port: str, outcomes: Mapping[str, Outcome], partial: bool = False) -> None:
        self.backend = backend
        self.port = port
        self.outcomes = outcomes
        self.partial = partial
        self.guarantees = [each for each in GUARANTEES if each.port in (port, "both")]

    def tests_of(self, guarantee: Guarantee) -> dict[str, Outcome]:
        """Return the outcomes for `guarantee`, by test name with parameters."""
        return {name: told for name, told in self.outcomes.items() if name.partition("[")[0] in guarantee.tests}

    def state_of(self, guarantee: Guarantee) -> str:
        """Return the state. A failed test breaks it; a passed one keeps it, unless declared in `cannot`."""
        tests = self.tests_of(guarantee).values()
        if any(told.outcome == "failed" for told in tests):
            return BROKEN
        if any(told.reason.startswith("cannot (") for told in tests):
            return CANNOT
        return KEPT if any(told.outcome == "passed" for told in tests) else UNCHECKED

    def broken(self) -> list[Guarantee]:
        """Return the guarantees that are broken."""
        return [each for each in self.guarantees if self.state_of(each) == BROKEN]

    def count(self, state: str) -> int:
        """Return how many guarantees are in `state`."""
        return sum(self.state_of(each) == state for each in self.guarantees)

    def lines(self) -> list[str]:
        """Return the report for people."""
        lines = []
        for each in self.guarantees:
            tests, state = self.tests_of(each), self.state_of(each)
            if tests:
                lines.append(f"{state:11}  {each.name:20}  {len(tests)} tests")
                lines += [f"{'':13}{name}: {told.reason}" for name, told in tests.items() if told.outcome != "passed"]
        return [*lines, self.summary()]

    def summary(self) -> str:
        """Return a summary in one line."""
        parts = [f"{self.count(state)} {state}" for state in (KEPT, BROKEN, CANNOT) if self.count(state)]
        checked = "some of the contract" if self.partial else "the contract"
        return f"{self.backend}, {self.port} port, {checked}: {', '.join(parts) or 'nothing was checked'}"

    def as_json(self, factory: object) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "backend": self.backend,
            "class": path_of(factory),
            "port": self.port,
            "backend_api": [*loopcore.BACKEND_API],
            "loopcore": loopcore.__version__,
            "build": "compiled" if describe_build().compiled else "pure",
            "python": platform.python_version(),
            "implementation": sys.implementation.name,
            "platform": platform.platform(),
            "partial": self.partial,
            "guarantees": [
                {
                    "name": each.name,
                    "text": each.text,
                    "state": self.state_of(each),
                    "tests": {name: told._asdict() for name, told in self.tests_of(each).items()},
                }
                for each in self.guarantees
            ],
        }


def badge_of(report: Report) -> str:
    """Return a badge: how many guarantees are kept, or broken. Only a complete run of the contract can be green."""
    broken, unchecked = report.count(BROKEN), report.count(UNCHECKED)
    whole = not report.partial and not unchecked
    text = f"{broken} broken" if broken else f"{report.count(KEPT)} of {len(report.guarantees)} guarantees"
    if not whole:
        text += f", {unchecked} not checked"
    color = BAD if broken else GOOD if whole else UNDECIDED
    left, right = "loopcore backend", text
    widths = [7 * len(part) + 12 for part in (left, right)]
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" '
        f'aria-label="{escape(left)}: {escape(right)}">\n'
        f"  <title>{escape(report.summary())}</title>\n"
        f'  <rect width="{widths[0]}" height="20" fill="#444"/>\n'
        f'  <rect x="{widths[0]}" width="{widths[1]}" height="20" fill="{color}"/>\n'
        f'  <g fill="#fff" text-anchor="middle" font-family="Verdana,sans-serif" font-size="11">\n'
        f'    <text x="{widths[0] / 2:g}" y="14">{escape(left)}</text>\n'
        f'    <text x="{widths[0] + widths[1] / 2:g}" y="14">{escape(right)}</text>\n'
        f"  </g>\n</svg>\n"
    )
