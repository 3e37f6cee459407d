"""Make a request late for each of the causes below, and ask `loopcore why`: `python driver.py [CAUSE...]`.

Each cause gets a new service. The request that will be late is sent while the cause lasts; then the service is
asked for a dump (SIGUSR2), and `loopcore why` reads it, and nothing else. With `--keep FOLDER` the dumps stay there.
"""

import argparse
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SERVICE = Path(__file__).parent / "service.py"
PATIENCE = 30.0
SETTLING = 0.3
"""Seconds between a late request and the dump."""
UNDER_WAY = 0.2
"""Seconds until the other requests are under way."""
SPINNING = "while True: pass"


@dataclass(frozen=True)
class Cause:
    """What makes the request `late` late: the `others`, sent before it, or `neighbours` that take the CPU."""

    others: tuple[str, ...]
    late: str
    answer: tuple[str, ...]
    """What the first answer of `loopcore why` has to contain; `{...}` is the number of the line with this text."""
    neighbours: int = 0


CAUSES = {
    "blocking-call": Cause(("/report",), "/hello", ("in a blocking call at report (service.py:{subprocess.run(})",)),
    "call-in-c": Cause(
        ("/search",),
        "/hello",
        ("waiting for the GIL, held by the thread matcher in match_addresses (service.py:{re.match(})",),
    ),
    "python-thread": Cause(
        ("/train",), "/hello", ("waiting for the GIL, held by the thread trainer in compute_model",)
    ),
    "executor": Cause(
        ("/thumbnail",) * 5,
        "/thumbnail",
        ("waiting for a free thread of the executor", "its threads ran resize (service.py:"),
    ),
    "plain-functions": Cause(
        ("/invoice",) * 5,
        "/invoice",
        ("waiting for a free thread of the executor", "its threads ran invoice (service.py:"),
    ),
    "lock": Cause(
        ("/refresh",),
        "/price",
        ("waiting for a lock in price (service.py:", "in refresh (service.py:{asyncio.sleep(})"),
    ),
    "neighbour": Cause((), "/statement", ("the kernel ran other threads or processes",), neighbours=4),
}


@dataclass(frozen=True)
class End:
    """How a process ends while it answers `path`: by this signal; None if the request ends it."""

    path: str
    number: signal.Signals | None
    dump: tuple[str, ...] = ()
    """What the dump says that was written when the stall began; empty if there was none."""


RAN = ("at the end RequestResponseCycle.run_asgi#", "ran, which had not returned")
"""What the file has to say of each."""
ENDS = {
    "killed": End(
        "/report?seconds=5", signal.SIGKILL, ("in a blocking call at report (service.py:{subprocess.run(})",)
    ),
    "crashed": End("/crash", None),
}
ALL = (*CAUSES, *ENDS)


class Service:
    """A running service."""

    def __init__(self, folder: Path, *, recorder: str = "signal=USR2,most=0") -> None:
        self.port = free_port()
        self.dump_path = folder / "dump.rec"
        options = f"recorder:{recorder},dumps={self.dump_path}"
        self.process = subprocess.Popen(
            [sys.executable, SERVICE.name, str(self.port)],
            cwd=SERVICE.parent,
            env={**os.environ, "LOOPCORE_PLUGINS": options},
        )
        self._kept = self.client()
        """A connection that is there before something is late, as from a proxy."""

    def client(self) -> http.client.HTTPConnection:
        """Return a client, which connects when it is first used."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def get(self, path: str) -> None:
        """Send a request through a new connection."""
        client = self.client()
        ask(client, path)
        client.close()

    def time(self, path: str) -> float:
        """Return how long the answer to a request takes."""
        began = time.monotonic()
        ask(self._kept, path)
        return time.monotonic() - began

    def wait_until_ready(self) -> None:
        """Wait for the first answers, which take longer."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.time("/hello")
                break
            except ConnectionRefusedError:
                self._kept.close()
                assert time.monotonic() < end, "the service does not start"
                time.sleep(0.1)
        for path in ("/hello", "/price", "/statement"):
            self.time(path)

    def close(self) -> None:
        """End it."""
        self._kept.close()
        self.process.kill()
        self.process.wait()

    def dump(self) -> Path:
        """Return the path of a dump that is written now."""
        self.dump_path.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR2)
        return self.wait_for_dump()

    def wait_for_dump(self) -> Path:
        """Return the path of the dump when it is there."""
        end = time.monotonic() + PATIENCE
        while not self.dump_path.exists():
            assert time.monotonic() < end, "there is no dump"
            time.sleep(0.05)
        return self.dump_path


def ask(client: http.client.HTTPConnection, path: str) -> None:
    """Send a request, and read the answer."""
    client.request("GET", path)
    answer = client.getresponse()
    assert answer.read()
    assert answer.status == http.client.OK, f"{path}: {answer.status}"


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(folder: Path, **options: str) -> Iterator[Service]:
    """Run a service, which has answered once."""
    service = Service(folder, **options)
    try:
        service.wait_until_ready()
        yield service
    finally:
        service.close()


@contextmanager
def neighbours(process: int, count: int) -> Iterator[None]:
    """Run `count` processes that compute, and let `process` and them share one core."""
    core = min(os.sched_getaffinity(0))
    for thread in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(thread), {core})
    with ExitStack() as stack:
        for _ in range(count):
            spinning = stack.enter_context(subprocess.Popen([sys.executable, "-c", SPINNING]))
            stack.callback(spinning.kill)
            os.sched_setaffinity(spinning.pid, {core})
        time.sleep(0.3)
        yield


def provoke(cause: Cause, service: Service) -> float:
    """Send the requests; return how long the late one took."""
    with ExitStack() as stack:
        if cause.neighbours:
            stack.enter_context(neighbours(service.process.pid, cause.neighbours))
        for path in cause.others:
            thread = threading.Thread(target=service.get, args=(path,))
            thread.start()
            stack.callback(thread.join)
        if cause.others:
            time.sleep(UNDER_WAY)
        return service.time(cause.late)


def why(dump: Path, *options: str) -> str:
    """Return what `loopcore why` says."""
    command = [sys.executable, "-m", "loopcore", "why", str(dump), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def with_lines(texts: tuple[str, ...]) -> list[str]:
    """Return the texts with the numbers of lines."""
    return [re.sub("{(.*)}", lambda found: str(line_of(found[1])), text) for text in texts]


def line_of(code: str) -> int:
    """Return the number of the line of the service that contains `code`."""
    return next(number for number, line in enumerate(SERVICE.read_text().splitlines(), 1) if code in line)


def show(name: str, folder: Path) -> bool:
    """Provoke a cause, print what `why` says, and return whether that is the cause."""
    cause = CAUSES[name]
    with serving(folder) as service:
        took = provoke(cause, service)
        time.sleep(SETTLING)
        answer = why(service.dump())
    print(f"== {name}: GET {cause.late} took {took * 1000:.0f} ms")
    return is_named(answer, cause.answer)


def show_end(name: str, folder: Path) -> bool:
    """End a process during a request, print what its recorder has left, and return whether that says what it did."""
    end = ENDS[name]
    file = folder / "loop.rec"
    with serving(folder, recorder=f"file={file},every=0") as service:
        service.dump_path.unlink(missing_ok=True)  # of a stall while it started
        threading.Thread(target=fail, args=(service, end.path), daemon=True).start()
        if end.number is not None:
            service.wait_for_dump()
            service.process.send_signal(end.number)
        code = service.process.wait(PATIENCE)
    print(f"== {name}: the service ended with {signal.Signals(-code).name}")
    named = is_named(why(file), RAN)
    if end.dump:
        print("== and the dump of the stall:")
        named &= is_named(why(service.dump_path), end.dump)
    return named


def fail(service: Service, path: str) -> None:
    """Send a request that is never answered."""
    with suppress(ConnectionError):
        service.get(path)


def is_named(answer: str, texts: tuple[str, ...]) -> bool:
    """Print the answer, and return whether what comes before the second one contains all texts."""
    first = answer.partition("\n2. ")[0]
    missing = [text for text in with_lines(texts) if text not in first]
    print(*[f"== not named: {text}" for text in missing], answer, sep="\n")
    return not missing


def main() -> int:
    """Return the exit code: 0 if each cause was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=f"one of {', '.join(ALL)}; without any, all")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the dumps in this folder")
    arguments = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.causes or ALL:
            folder = (arguments.keep or Path(scratch)).resolve() / name
            folder.mkdir(parents=True, exist_ok=True)
            if not (show if name in CAUSES else show_end)(name, folder):
                failed.append(name)
    print(f"not named: {', '.join(failed)}" if failed else "each cause was named")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
