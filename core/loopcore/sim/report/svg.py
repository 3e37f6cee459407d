"""Sequence diagrams as SVG: one file without references to others, for light and dark backgrounds.

As in the text, a column is a host and a row is an event. A message is a slanted arrow from the row of its beginning to
that of its arrival; a lost one is dashed and ends in a cross. The picture has a title and a description. Each arrow has
its times as a title, which browsers show as a tooltip and screen readers can read.
"""

from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from loopcore.sim.log import LogEntry
from loopcore.sim.report.messages import find_messages, hosts_of, label_of
from loopcore.text import printable

_LEFT, _TOP, _PITCH, _ROW = 110, 56, 220, 26  # pixels
_STYLE: Final = """
.loopcore-sequence { --ink: #1f2328; --line: #8c959f; --arrow: #0550ae; --lost: #b3261e; --back: #ffffff;
  font: 12px ui-sans-serif, system-ui, sans-serif; background: var(--back); }
@media (prefers-color-scheme: dark) {
  .loopcore-sequence { --ink: #e6edf3; --line: #6e7681; --arrow: #79c0ff; --lost: #ff8a80; --back: #0d1117; } }
.loopcore-sequence text { fill: var(--ink); stroke: var(--back); stroke-width: 3px; paint-order: stroke; }
.loopcore-sequence .host { font-weight: 600; text-anchor: middle; }
.loopcore-sequence .time { font-variant-numeric: tabular-nums; text-anchor: end; }
.loopcore-sequence .life { stroke: var(--line); stroke-dasharray: 2 4; }
.loopcore-sequence .message { stroke: var(--arrow); stroke-width: 1.5px; }
.loopcore-sequence .lost { stroke: var(--lost); stroke-width: 1.5px; stroke-dasharray: 6 3; fill: none; }
.loopcore-sequence .event { fill: var(--ink); }
.loopcore-sequence .head { fill: var(--arrow); }
"""


def sequence_svg(log: Sequence[LogEntry], *, title: str = "Sequence of messages") -> str:
    """Return the diagram of `log` as the text of an SVG file."""
    columns = {host: _LEFT + _PITCH * index + _PITCH // 2 for index, host in enumerate(hosts_of(log))}
    width, height = _LEFT + _PITCH * len(columns), _TOP + _ROW * (len(log) + 1)
    drawing = _Drawing(log, columns)
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "loopcore-sequence", "role": "img"})
    root.attrib |= {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    root.set("aria-label", printable(title))
    ET.SubElement(root, "title").text = printable(title)
    ET.SubElement(root, "desc").text = drawing.description()
    ET.SubElement(root, "style").text = _STYLE
    definitions = ET.SubElement(root, "defs")
    marker = {"id": "loopcore-head", "viewBox": "0 0 8 8", "refX": "8", "refY": "4", "orient": "auto"}
    head = ET.SubElement(definitions, "marker", {**marker, "markerWidth": "7", "markerHeight": "7"})
    ET.SubElement(head, "path", {"class": "head", "d": "M0 0 L8 4 L0 8 z"})
    for host, x in columns.items():
        _line(root, "life", (x, _TOP - 14), (x, height - 6))
        _text(root, printable(host), x, _TOP - 22, "host")
    drawing.draw(root)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


class _Drawing:
    def __init__(self, log: Sequence[LogEntry], columns: dict[str, int]) -> None:
        self._log = log
        self._columns = columns
        self._messages = find_messages(log)

    def description(self) -> str:
        sent = [message for message in self._messages if self._log[message.begin].kind == "send"]
        lost = sum(not message.arrivals for message in sent)
        span = f" from {self._log[0].when:.6f} s to {self._log[-1].when:.6f} s" if self._log else ""
        names = printable(", ".join(self._columns))
        return f"{len(self._log)} events{span} on the hosts {names}. {len(sent)} messages, {lost} of them lost."

    def draw(self, root: ET.Element) -> None:
        arrowed: set[int] = set()  # entries that an arrow shows
        for message in self._messages:
            begin = self._log[message.begin]
            for position in message.arrivals:
                arrowed |= {message.begin, position}
                end = self._log[position]
                about = f"{begin.when:.6f} s, {begin.host} to {end.host}: {begin.text}; arrived {end.when:.6f} s"
                self._arrow(root, (begin.host, message.begin), (end.host, position), label_of(begin), about)
            if not message.arrivals and begin.kind == "send" and begin.peer in self._columns:
                arrowed.add(message.begin)
                about = f"{begin.when:.6f} s, {begin.host} to {begin.peer}: {begin.text}; never arrived"
                self._arrow(
                    root, (begin.host, message.begin), (begin.peer, message.begin), label_of(begin), about, True
                )
        time = ""
        for position, entry in enumerate(self._log):
            before, time = time, f"{entry.when:.6f} s"
            if time != before:
                _text(root, time, _LEFT - 12, _y(position) + 4, "time")
            if position not in arrowed:
                self._event(root, entry, _y(position))

    def _event(self, root: ET.Element, entry: LogEntry, y: int) -> None:
        x, label = self._columns[entry.host], label_of(entry)
        group = ET.SubElement(root, "g")
        ET.SubElement(group, "title").text = printable(f"{entry.when:.6f} s, {entry.host}: {label}")
        ET.SubElement(group, "circle", {"class": "event", "cx": str(x), "cy": str(y), "r": "4"})
        if x == max(self._columns.values()) and len(label) > 14:  # it would leave the picture
            _text(group, label, x - 10, y + 4).set("text-anchor", "end")
        else:
            _text(group, label, x + 10, y + 4)

    def _arrow(
        self,
        root: ET.Element,
        begin: tuple[str, int],
        end: tuple[str, int],
        label: str,
        about: str,
        is_lost: bool = False,
    ) -> None:
        """Draw an arrow between two pairs of a host and a row."""
        group = ET.SubElement(root, "g")
        ET.SubElement(group, "title").text = printable(about)
        x1, x2 = self._columns[begin[0]], self._columns[end[0]]
        y1, y2 = _y(begin[1]), _y(end[1])
        if is_lost:
            x2 = x1 + (x2 - x1) * 2 // 3
            cross = f"M{x2 - 5} {y2 - 5} l10 10 m0 -10 l-10 10"
            ET.SubElement(group, "path", {"class": "lost", "d": cross, "style": "stroke-dasharray: none"})
        line = _line(group, "lost" if is_lost else "message", (x1, y1), (x2, y2))
        if not is_lost:
            line.set("marker-end", "url(#loopcore-head)")
        leftwards = x2 < x1
        text = _text(group, label, x1 - 8 if leftwards else x1 + 8, y1 - 4)
        text.set("text-anchor", "end" if leftwards else "start")


def _y(position: int) -> int:
    return _TOP + _ROW * position + _ROW // 2


def _line(parent: ET.Element, kind: str, begin: tuple[int, int], end: tuple[int, int]) -> ET.Element:
    ends = {"x1": str(begin[0]), "y1": str(begin[1]), "x2": str(end[0]), "y2": str(end[1])}
    return ET.SubElement(parent, "line", {"class": kind, **ends})


def _text(parent: ET.Element, text: str, x: int, y: int, kind: str = "label") -> ET.Element:
    element = ET.SubElement(parent, "text", {"class": kind, "x": str(x), "y": str(y)})
    element.text = text if len(text) <= 60 else text[:57] + "..."
    return element
