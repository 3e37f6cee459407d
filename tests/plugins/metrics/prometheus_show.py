"""A real Prometheus scrapes a FastAPI application under load, and the queries of the manual are asked of it.

    python -m tests.plugins.metrics.prometheus_show [--seconds 30] [--workers 1]

Needs prometheus, promtool and wrk on PATH (Debian: `apt install prometheus wrk`), and fastapi and uvicorn. Checked:
every scrape succeeds; promtool has no complaint about the text; every query of docs/reference/plugins/metrics.md has an
answer, which is printed; a handler that blocks for half a second is named in the log within a second. The exit status
is 1 if one of these fails, 2 if something is not installed.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "reference" / "plugins" / "metrics.md"
APPLICATION = "tests.plugins.metrics.prometheus_app"
PATIENCE = 30.0

CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: app
    static_configs: [{{targets: {targets}}}]
"""

PATHS = """
n = 0
request = function() n = n + 1; return wrk.format("GET", n % 2 == 0 and "/" or "/database") end
"""
"""wrk's program: it asks for one and the other in turn."""

LABELS = ("source", "outcome", "cause", "state", "pool", "kind", "direction")
"""What is printed of the labels of an answer."""


def queries() -> list[str]:
    """Return the queries of the manual."""
    blocks = re.findall(r"```promql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


def missing() -> list[str]:
    """Return what is not installed."""
    programs = [name for name in ("prometheus", "promtool", "wrk") if shutil.which(name) is None]
    return programs + [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        body: bytes = answer.read()
        return body


def wait_for(url: str) -> None:
    """Return when `url` answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            get(url)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def free_ports(count: int) -> int:
    """Return the first of some ports in a row that are free now."""
    for first in range(20000 + os.getpid() % 10000, 32000, count):
        with contextlib.ExitStack() as sockets, contextlib.suppress(OSError):
            for port in range(first, first + count):
                sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise OSError("no ports are free")


@contextlib.contextmanager
def running(command: list[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=REPOSITORY)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


class Show:
    """The processes and their ports."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.workers = workers
        first = free_ports(workers + 2)
        self.application, self.prometheus = f"http://127.0.0.1:{first}", f"http://127.0.0.1:{first + 1}"
        self.metrics = range(first + 2, first + 2 + workers)
        self.log = folder / "application.log"
        self.failures: list[str] = []

    @contextlib.contextmanager
    def everything(self) -> Iterator[None]:
        """Run application and Prometheus."""
        port = self.application.rpartition(":")[2]
        uvicorn = [sys.executable, "-m", "uvicorn", "--loop", "loopcore:new_event_loop", "--port", port]
        uvicorn += ["--log-level", "warning", "--workers", str(self.workers), f"{APPLICATION}:app"]
        plugins = f"metrics:port={self.metrics[0]},ports={self.workers},watchdog"
        targets = json.dumps([f"127.0.0.1:{port}" for port in self.metrics])
        (self.folder / "prometheus.yml").write_text(CONFIGURATION.format(targets=targets))
        prometheus = ["prometheus", f"--config.file={self.folder}/prometheus.yml"]
        prometheus += [f"--storage.tsdb.path={self.folder}/data"]
        prometheus += [f"--web.listen-address={self.prometheus.removeprefix('http://')}"]
        environment = {**os.environ, "LOOPCORE_PLUGINS": plugins, "PYTHONPATH": str(REPOSITORY)}
        with running(uvicorn, self.log, environment), running(prometheus, self.folder / "prometheus.log"):
            wait_for(f"{self.application}/")
            wait_for(f"{self.prometheus}/-/ready")
            yield

    def load(self, seconds: int) -> None:
        """Put the application under load, and have it block in the middle."""
        blocker = threading.Timer(seconds / 2, self.block)
        blocker.start()
        paths = self.folder / "paths.lua"
        paths.write_text(PATHS)
        command = ["wrk", "-t1", "-c16", f"-d{seconds}s", f"-s{paths}", self.application]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(re.search(r"Requests/sec.*", done.stdout)[0])  # type: ignore[index]
        blocker.join()

    def block(self) -> None:
        """Ask for what blocks, and see how long it takes the watchdog to name it."""
        expected = re.compile(r"at \S*prometheus_app\.py:\d+, in report: time\.sleep\(0\.5\)")
        asked = time.monotonic()
        threading.Thread(target=get, args=(f"{self.application}/report",)).start()
        while (found := expected.search(self.log.read_text())) is None and time.monotonic() < asked + PATIENCE:
            time.sleep(0.01)
        seconds = time.monotonic() - asked
        print(f"the watchdog, after {seconds:.2f} s: {found and found[0].replace(str(REPOSITORY) + '/', '')}")
        self.check(found is not None and seconds < 1.0, "the handler that blocks was not named within a second")

    def judge_scrapes(self) -> None:
        """Every target is up, and its text is as it should be."""
        targets = json.loads(get(f"{self.prometheus}/api/v1/targets"))["data"]["activeTargets"]
        for target in targets:
            print(f"target {target['scrapeUrl']}: {target['health']} {target['lastError']}")
            self.check(target["health"] == "up" and not target["lastError"], "a scrape failed")
            text = get(target["scrapeUrl"])
            lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
            self.check(lint.returncode == 0, f"promtool complains: {lint.stderr.decode()}")
        self.check(len(targets) == self.workers, "a worker has no endpoint")
        duration, samples = self.ask("max(scrape_duration_seconds)"), self.ask("max(scrape_samples_scraped)")
        print(f"scrapes: {duration[0]['value'][1]} s for {samples[0]['value'][1]} samples")

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return Prometheus' answer."""
        answer = json.loads(get(f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
        results: list[dict[str, Any]] = answer["data"]["result"]
        return results

    def answer_queries(self) -> None:
        """Ask every query of the manual, and print the answers as it has them."""
        for query in queries():
            print(query)
            results = self.ask(query)
            for result in results:
                labels = ", ".join(f"{key}={value}" for key, value in sorted(result["metric"].items()) if key in LABELS)
                print(f"    {float(result['value'][1]):.6g}  {labels}")
            finite = [result for result in results if result["value"][1] not in ("NaN", "+Inf")]
            self.check(bool(finite), f"no answer to: {query}")

    def check(self, is_well: bool, complaint: str) -> None:
        if not is_well:
            self.failures.append(complaint)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if absent := missing():
        print(f"not installed: {', '.join(absent)}; see the head of {__file__}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        show = Show(Path(folder), options.workers)
        with show.everything():
            show.load(options.seconds)
            show.judge_scrapes()
            show.answer_queries()
    for failure in show.failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if show.failures else 0


if __name__ == "__main__":
    sys.exit(main())
