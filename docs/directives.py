"""Extensions of Sphinx for the manual: the directive `diagram`, drawn by diagrams.py, and a short sidebar."""

import asyncio
from typing import Any

import diagrams
from docutils import nodes
from sphinx.ext import intersphinx
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


MADE_BY_LOOPCORE = frozenset(
    {
        "loopcore.Future",
        "loopcore.Handle",
        "loopcore.Measurements",
        "loopcore.Meter",
        "loopcore.Task",
        "loopcore.TimerHandle",
        "loopcore.files.Blocks",
        "loopcore.files.File",
        "loopcore.files.Opening",
        "loopcore.kernel.probes.Probes",
        "loopcore.sim.Outcome",
        "loopcore.sync.Guard",
        "loopcore.sync.Selected",
        *(
            f"loopcore.sync.{kind}.{end}"
            for kind in ("broadcast", "mpmc", "oneshot", "watch")
            for end in ("Receiver", "Sender")
        ),
    }
)
"""Classes whose constructors are not public: they are shown without parameters."""

PUBLIC = {
    "SSLContext": "ssl.SSLContext",
    "ThreadPoolExecutor": "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures._base.Executor": "concurrent.futures.Executor",
}
"""Where Python documents a class, if its own `__module__` says something else; asyncio's are all in `asyncio`."""


def hide_constructor(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Leave out the parameters of a class that programs do not call."""
    return ("", None) if what == "class" and name in MADE_BY_LOOPCORE else None


def refer_to_asyncio(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Refer a method of the loop that has no docstring to asyncio's."""
    owner, _, method = name.rpartition(".")
    if owner == "loopcore.EventLoop" and not any(lines) and hasattr(asyncio.AbstractEventLoop, method):
        lines[:] = [f"See :py:meth:`asyncio.loop.{method}`.", ""]


def find_in_python(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """Resolve a class by the name under which Python documents it."""
    target = node.get("reftarget", "")
    if target.startswith(("_asyncio.", "asyncio.")):
        node["reftarget"] = "asyncio." + target.rpartition(".")[2]
    else:
        node["reftarget"] = PUBLIC.get(target, target)
    return intersphinx.missing_reference(app, env, node, shown)


def setup(app: Any) -> dict[str, bool]:
    """Register all of it; Sphinx calls this."""
    app.add_directive("diagram", Diagram)
    app.connect("html-page-context", keep_sidebar_short, priority=100)  # before furo's, which draws the sidebar
    app.connect("autodoc-process-docstring", refer_to_asyncio)
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("missing-reference", find_in_python)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
