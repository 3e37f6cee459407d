"""Extensions of Sphinx for the manual: the directive `diagram`, drawn by diagrams.py, and a short sidebar."""

from typing import Any

import diagrams
from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Diagram(SphinxDirective):
    """`diagram NAME`, with a caption as its content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        name = self.arguments[0]
        if name not in diagrams.DIAGRAMS:
            raise self.error(f"there is no diagram {name!r}; there are {', '.join(diagrams.DIAGRAMS)}")
        for source in diagrams.SOURCES:
            self.env.note_dependency(str(source))
        figure = nodes.figure("", nodes.raw("", diagrams.DIAGRAMS[name](), format="html"))
        if self.content:
            figure += nodes.caption("", "", *self.state.inline_text(" ".join(self.content), self.lineno)[0])
        return [figure]


def keep_sidebar_short(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Show only the entries of index.md in the sidebar: furo would add all pages below them, such as each ADR."""
    toctree = context["toctree"]
    context["toctree"] = lambda **options: toctree(**{**options, "maxdepth": 1})


def setup(app: Any) -> dict[str, bool]:
    """Register all of it; Sphinx calls this."""
    app.add_directive("diagram", Diagram)
    app.connect("html-page-context", keep_sidebar_short, priority=100)  # before furo's, which draws the sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}
