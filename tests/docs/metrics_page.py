"""The table of metrics in the manual, written from the catalogue.

python -m tests.docs.metrics_page
"""

from pathlib import Path

from loopcore_plugins.metrics.catalogue import CATALOGUE, Metric

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "plugins" / "metrics.md"
BEGIN = "<!-- metrics: written by `python -m tests.docs.metrics_page`; what is changed here is lost -->\n"
END = "<!-- end of metrics -->\n"

HEAD = """
| Prometheus | OpenTelemetry | kind, unit | labels | attributes | meaning |
|------------|---------------|------------|--------|------------|---------|
"""
KINDS = {"updown": "up-down"}


def row(metric: Metric) -> str:
    """Return the line of a metric."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    attributes = ", ".join(f"`{label.attribute}`" for label in metric.dimensions)
    kind = f"{KINDS.get(metric.kind, metric.kind)}, {metric.unit}"
    return f"| `{metric.prometheus_name}` | `{metric.name}` | {kind} | {labels} | {attributes} | {metric.help} |\n"


def page() -> str:
    """Return the page, with the table as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    table = HEAD + "".join(map(row, CATALOGUE)) + "\n"
    return f"{before}{BEGIN}{table}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
