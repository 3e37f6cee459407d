"""Page: the answer of `loopcore why` as one HTML file. It needs no network, no script and no other file."""

import html
from importlib import resources

from loopcore_plugins.inspect.listing import shorten
from loopcore_plugins.recorder.causes import Part
from loopcore_plugins.recorder.choosing import SMALL, Item, clock_of
from loopcore_plugins.recorder.model import Model
from loopcore_plugins.recorder.telling import (
    LONGEST,
    amount_of,
    by_size,
    duration,
    others_of,
    overview,
    requests_of,
    summary_of,
    text_of,
    text_of_request,
)


def make_page(items: list[Item], model: Model) -> str:
    """Return the page. The program chooses its names: each is escaped and bounded."""
    title, *facts = overview(model)
    sections = [_section(item, model) for item in items] or ["<p>Nothing in this recording was late.</p>"]
    page = (resources.files(__package__) / "page.html").read_text(encoding="utf-8")
    return (
        page.replace("<!-- title -->", _text(title))
        .replace("<!-- facts -->", "\n".join(f'<p class="facts">{_text(fact)}</p>' for fact in facts))
        .replace("<!-- items -->", "\n".join(sections))
    )


def _section(item: Item, model: Model) -> str:
    whole = max(item.end - item.begin, 1)
    times = f"{duration(item.end - item.begin)} from {clock_of(model, item.begin)} to {clock_of(model, item.end)}"
    notes = ["; ".join(filter(None, (times, others_of(item)))), *map(text_of_request, requests_of(item, model))]
    return (
        f'<section class="card"><h2>{_text(item.name)}: <b>{duration(item.late)}</b> late</h2>'
        f'<p class="why">{_text(summary_of(item))}</p>{_notes(notes)}'
        f"{_list(item.parts, whole)}</section>"
    )


def _notes(notes: list[str]) -> str:
    return "".join(f'<p class="note">{_text(note)}</p>' for note in notes)


def _list(parts: list[Part], whole: int) -> str:
    large, small = by_size(parts, whole)
    nodes = "".join(_node(part, whole) for part in large)
    if small:
        row = _row(
            duration(sum(part.ns for part in small)), "", sum(part.ns for part in small) / whole, "smaller parts"
        )
        inner = "".join(_node(part, whole) for part in small)
        nodes += f'<li><details><summary class="row">{row}</summary><ul>{inner}</ul></details></li>'
    return f"<ul>{nodes}</ul>"


def _node(part: Part, whole: int) -> str:
    row = _row(amount_of(part), part.why, part.ns / whole, text_of(part))
    if not part.parts:
        return f'<li><div class="row">{row}</div></li>'
    is_open = " open" if part.ns * SMALL >= whole else ""
    return f'<li><details{is_open}><summary class="row">{row}</summary>{_list(part.parts, whole)}</details></li>'


def _row(amount: str, kind: str, share: float, text: str) -> str:
    bar = f'<span class="bar"><i class="{kind}" style="width:{share:.1%}"></i></span>'
    return f'<span class="ns">{amount}</span>{bar}<span class="text">{_text(text)}</span>'


def _text(text: str) -> str:
    return html.escape(shorten(text, LONGEST))
