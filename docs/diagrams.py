"""Diagrams of the manual, drawn at build time from the tables that the code itself uses.

    ```{diagram} tick
    The caption.
    ```

No drawing has to be kept up to date: `tick` comes from the kernel's phases, `layers` from the contracts that
import-linter checks and the imports of our own packages, `ports` from the two protocols, `hooks` from the specs.
`directives.py` puts them into pages; colours are the theme's (_static/loopcore.css). A diagram is as wide as a phone,
so that nothing is shrunk there.
"""

import ast
import inspect
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from loopcore.hooks import specs as hookspecs
from loopcore.kernel import phases
from loopcore.ports.completion import CompletionBackend
from loopcore.ports.readiness import ReadinessBackend

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "pyproject.toml"
WIDTH = 380
PREFIX = "loopcore_"
STRANGERS = {
    "backends": (ROOT / "backends" / "loopcore_backends", "backends-see-the-port"),
    "plugins": (ROOT / "plugins" / "loopcore_plugins", "plugins-see-the-hooks"),
}
IMPORTED, FORBIDDEN, UNUSED = "●", "✕", ""


# ------------------------------------------------------------------ what the tables say


class Layer(NamedTuple):
    """Modules of one height, and how backends and plugins stand to them."""

    modules: list[str]
    signs: dict[str, str]


def layers() -> list[Layer]:
    """Return the layers of `loopcore`, the highest first, as the contract "layers" has them."""
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    contracts = {each["id"]: each for each in settings["tool"]["importlinter"]["contracts"]}
    forbidden = {who: contracts[name]["forbidden_modules"] for who, (_, name) in STRANGERS.items()}
    imported = {who: set(imports_of(folder)) for who, (folder, _) in STRANGERS.items()}
    found = []
    for row in contracts["layers"]["layers"]:
        names = [name.strip(" ()") for name in row.replace("|", ":").split(":")]
        modules = [name for name in names if list((ROOT / "core" / "loopcore").glob(f"{name}*"))]
        signs = {
            who: IMPORTED if imported[who].intersection(modules)
            else FORBIDDEN if all(f"loopcore.{module}" in forbidden[who] for module in modules)
            else UNUSED
            for who in STRANGERS
        }  # fmt: skip
        found.append(Layer(modules, signs))
    return found


def imports_of(folder: Path) -> Iterator[str]:
    """Yield which modules of `loopcore` the sources in `folder` import, by the first name below the package."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            yield from (name.split(".")[1] for name in names if name.startswith("loopcore."))


def port(protocol: type) -> list[str]:
    """Return the members of a port, methods with their parameters."""
    told = [*protocol.__annotations__]
    for name, member in vars(protocol).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not name.startswith("_"):
            parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
            told.append(f"{name}({', '.join(parameters)})")
    return told


def hooks() -> dict[str, list[str]]:
    """Return the hooks without their prefix: the cold ones, those that are watched in groups, those that decide."""
    grouped = {name for names in hookspecs.GROUPS.values() for name in names}
    every = [name for name in vars(hookspecs) if name.startswith(PREFIX)]
    cold = [name for name in every if name not in grouped and name not in hookspecs.POLICY_HOOKS]
    kinds = {"cold": cold, **hookspecs.GROUPS, "policies": hookspecs.POLICY_HOOKS}
    return {kind: [name.removeprefix(PREFIX) for name in names] for kind, names in kinds.items()}


# ------------------------------------------------------------------ how they are drawn


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{kind}"/>'


def picture(height: float, title: str, parts: list[str]) -> str:
    """Return the SVG. `title` is what it says to those who do not see it."""
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" class="head"/></marker></defs>'
    )
    return (
        f'<svg class="diagram" viewBox="0 0 {WIDTH} {height:g}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{arrow}{''.join(parts)}</svg>"
    )


def draw_tick() -> str:
    """The phases from top to bottom, and back: where the loop waits, and where a program may put callbacks."""
    notes = {phase: ["takes callbacks"] for phase in phases.OPEN_PHASES} | {phases.POLL: ["waits in the backend"]}
    for hook in hookspecs.TICK_HOOKS:
        phase = hook.removeprefix(PREFIX).rpartition("_")[0]
        if phase in phases.PHASES:
            notes[phase] = [*notes.get(phase, ()), f"hook {hook.removeprefix(PREFIX)}"]
    step, parts = 46, []
    for number, phase in enumerate(phases.PHASES):
        y = 6 + number * step
        parts += [
            box(44, y, 130, 32, "waits" if phase == phases.POLL else ""),
            text(58, y + 21, str(number + 1), "dim"),
        ]
        parts.append(text(78, y + 21, phase, "name"))
        first = y + 21 - 7 * (len(notes.get(phase, ())) - 1)
        parts += [text(186, first + 14 * row, note, "dim") for row, note in enumerate(notes.get(phase, ()))]
        if number:
            parts.append(f'<path d="M109 {y - step + 32}v{step - 34}" class="line" marker-end="url(#arrow)"/>')
    last = 22 + (len(phases.PHASES) - 1) * step
    parts.append(f'<path d="M44 {last}H22V22H42" class="line" marker-end="url(#arrow)"/>')
    parts.append(f'<text transform="translate(14 {last / 2 + 40:g}) rotate(-90)" class="dim">next tick</text>')
    return picture(last + 24, "The phases of a tick: " + ", ".join(phases.PHASES), parts)


def draw_layers() -> str:
    """The layers from top to bottom, each with the imports of it by backends and plugins."""
    columns = {who: 284 + 62 * number for number, who in enumerate(STRANGERS)}
    parts = [text(x, 14, who, "dim middle") for who, x in columns.items()]
    y = 24
    for layer in layers():
        lines = textwrap.wrap(" · ".join(layer.modules), 34)
        height = 12 + 16 * len(lines)
        parts.append(box(2, y, 244, height))
        parts += [text(14, y + 18 + 16 * row, line, "name") for row, line in enumerate(lines)]
        parts += [text(x, y + height / 2 + 5, layer.signs[who], "sign middle") for who, x in columns.items()]
        y += height + 6
    parts.append(
        text(2, y + 12, f"{IMPORTED} is imported  ·  {FORBIDDEN} must not be  ·  a layer imports from below", "dim")
    )
    return picture(y + 20, "The layers of loopcore, and what backends and plugins import of each", parts)


def draw_ports() -> str:
    """Core above, the two ports, the operating system below."""
    ports = {"readiness": port(ReadinessBackend), "completion": port(CompletionBackend)}
    height = 34 + 18 * max(map(len, ports.values()))
    parts = [box(2, 4, WIDTH - 4, 34), text(WIDTH / 2, 26, "core: one transport layer, drivers", "name middle")]
    for number, (name, members) in enumerate(ports.items()):
        x = 2 + number * 194
        parts += [box(x, 66, 182, height, "port"), text(x + 12, 88, name, "name")]
        parts += [text(x + 12, 110 + 18 * row, member, "code") for row, member in enumerate(members)]
        for y in (40, 66 + height + 2):
            parts.append(
                f'<path d="M{x + 91} {y}v22" class="line" marker-end="url(#arrow)" marker-start="url(#arrow)"/>'
            )
    y = 66 + height + 28
    parts += [box(2, y, WIDTH - 4, 34), text(WIDTH / 2, y + 22, "operating system", "name middle")]
    return picture(y + 40, "The ports of a backend, between core and the operating system", parts)


def draw_hooks() -> str:
    """A row for each kind of hook, with their names."""
    parts, y = [], 4
    for kind, names in hooks().items():
        lines = textwrap.wrap(" · ".join(names), 40, break_on_hyphens=False)
        height = 16 + 17 * len(lines)
        parts += [box(88, y, WIDTH - 90, height, "port" if kind == "policies" else ""), text(2, y + 21, kind, "name")]
        parts += [text(97, y + 21 + 17 * row, line, "code") for row, line in enumerate(lines)]
        y += height + 6
    return picture(y, "The hooks by kind", parts)


DIAGRAMS: dict[str, Callable[[], str]] = {
    "tick": draw_tick, "layers": draw_layers, "ports": draw_ports, "hooks": draw_hooks,
}  # fmt: skip
SOURCES = (
    Path(__file__),
    SETTINGS,
    *(
        ROOT / "core" / "loopcore" / name
        for name in ("hooks/specs.py", "ports/readiness.py", "ports/completion.py", "kernel/phases.py")
    ),
)
"""Where a change makes the pages with diagrams out of date."""
