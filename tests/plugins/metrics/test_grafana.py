"""The dashboard and the alert rules of examples/grafana name metrics that exist, and a real Prometheus accepts them.

Tests with Prometheus are skipped where `prometheus` and `promtool` are not on PATH (Debian: the package prometheus).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopcore_plugins.metrics.catalogue import CATALOGUE
from tests.plugins.metrics.prometheus_show import free_ports, running

GRAFANA = Path(__file__).parents[3] / "examples" / "grafana"
ALERTS = (GRAFANA / "alerts.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((GRAFANA / "dashboard.json").read_text(encoding="utf-8"))
PATIENCE = 60.0
COMMON = {"job", "instance", "loop", "backend"}

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="no prometheus, promtool on PATH"
)

PROGRAM = """
import asyncio, time

async def fail():
    raise ValueError

async def answer(reader, writer):
    writer.write(await reader.readline())
    writer.close()

async def main():
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    time.sleep(0.5)
    while True:
        await asyncio.wait([asyncio.create_task(fail())])
        loop.call_exception_handler({"message": "of the test"})
        await asyncio.to_thread(len, "")
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\\n")
        await reader.read()
        writer.close()
        await asyncio.sleep(0.05)

import loopcore
loopcore.run(main())
"""


def names() -> dict[str, set[str]]:
    """The time series that the plugin exposes, each with its labels."""
    found = {}
    for metric in CATALOGUE:
        suffixes = ("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",)
        for suffix in suffixes:
            labels = COMMON | set(metric.labels) | ({"le"} if suffix == "_bucket" else set())
            found[metric.prometheus_name + suffix] = labels
    return found


def panels() -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of each line in the dashboard."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def rules() -> list[str]:
    return re.findall(r"^ +expr: (.*)$", ALERTS, re.MULTILINE)


EXPRESSIONS = [expression for _, expression, _ in panels()] + rules()
VARIABLES = [variable["query"]["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"]


@pytest.mark.parametrize("expression", EXPRESSIONS + VARIABLES)
def test_metrics_and_labels_exist(expression: str) -> None:
    known = names()
    used = re.findall(r"\b(loopcore_\w+)(?:\{([^}]*)\})?", expression)
    assert used
    for name, selector in used:
        assert name in known
        assert set(re.findall(r"(\w+)=", selector)) <= known[name]
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(group.split(", ")) <= set.union(*(known[name] for name, _ in used))


def test_legends_name_labels_that_the_expression_keeps() -> None:
    for title, expression, legend in panels():
        grouped = re.search(r"\bby \(([^)]*)\)", expression)
        (name,) = set(re.findall(r"loopcore_\w+", expression))
        kept = set(grouped[1].split(", ")) if grouped else names()[name]
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= kept, title


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_there_are_panels_and_rules() -> None:
    """A rule that is applied to nothing is always kept."""
    assert len(list(panels())) > 20
    assert len(rules()) == ALERTS.count("- alert: ") > 5


@needs_prometheus
@pytest.mark.parametrize("check", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]])
def test_promtool_accepts_the_rules(check: list[str]) -> None:
    done = subprocess.run(["promtool", *check], cwd=GRAFANA, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_each_rule_has_a_test() -> None:
    tests = (GRAFANA / "alerts_test.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"- alert: (\w+)", ALERTS)) == set(re.findall(r"alertname: (\w+)", tests))


def ask(server: str, path: str, **arguments: str) -> Any:
    """The data of an answer of Prometheus' API."""
    url = f"{server}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        answer = json.load(response)
    assert answer["status"] == "success", answer
    return answer["data"]


@needs_prometheus
def test_prometheus_answers_every_expression(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    scraped = free_ports(2)
    server = f"http://127.0.0.1:{scraped + 1}"
    (tmp_path / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{GRAFANA}/alerts.yml]
scrape_configs:
  - job_name: app
    static_configs: [{{targets: ["127.0.0.1:{scraped}"]}}]
"""
    )
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    command.append(f"--web.listen-address=127.0.0.1:{scraped + 1}")
    environment = {**os.environ, "LOOPCORE_PLUGINS": f"metrics:port={scraped},watchdog:threshold=0.1"}
    unanswered = {
        re.sub(r"\$(job|instance|loop)", ".*", expression).replace("$__rate_interval", "10s")
        for _, expression, _ in panels()
    }
    with (
        running([sys.executable, "-c", PROGRAM], tmp_path / "program.log", environment),
        running(command, tmp_path / "prometheus.log"),
    ):
        deadline = time.monotonic() + PATIENCE
        health = {"unknown"}
        while (unanswered or health == {"unknown"}) and time.monotonic() < deadline:
            time.sleep(1)  # one scrape
            try:
                unanswered -= {each for each in unanswered if ask(server, "query", query=each)["result"]}
                groups = ask(server, "rules")["groups"]
            except urllib.error.URLError as error:  # it does not listen yet
                if not isinstance(error.reason, ConnectionRefusedError):
                    raise
            else:
                health = {rule["health"] for group in groups for rule in group["rules"]}
        assert unanswered == set(), (tmp_path / "program.log").read_text()[-2000:]
        assert health == {"ok"}
