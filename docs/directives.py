"""What the pages of the manual may ask for beyond Sphinx's own: `diagram`, which diagrams.py draws."""

from typing import Any

import diagrams
from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Diagram(SphinxDirective):
    """`diagram NAME`, with a caption as its content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw it anew."""
        name = self.arguments[0]
        if name not in diagrams.DIAGRAMS:
            raise self.error(f"there is no diagram {name!r}; there are {', '.join(diagrams.DIAGRAMS)}")
        for source in diagrams.SOURCES:
            self.env.note_dependency(str(source))
        figure = nodes.figure("", nodes.raw("", diagrams.DIAGRAMS[name](), format="html"))
        if self.content:
            figure += nodes.caption("", "", *self.state.inline_text(" ".join(self.content), self.lineno)[0])
        return [figure]


def setup(app: Any) -> dict[str, bool]:
    """Sphinx's door."""
    app.add_directive("diagram", Diagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
