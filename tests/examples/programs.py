"""Starting the examples as processes, and talking to them over sockets with hand-written bytes."""

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PATIENCE = 30.0
"""Seconds until a read or a process is given up; nothing takes nearly that long unless it hangs."""

LIFE = 240.0
"""Seconds until a server is killed that a whole module shares."""


def environment(backend: str, **more: str) -> dict[str, str]:
    """The environment of a child that is to run on `backend`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LOOPCORE_", "PYTHON"))}
    chosen = {} if backend == "asyncio" else {"LOOPCORE_BACKEND": backend}
    return {**inherited, **chosen, "PYTHONUTF8": "1", **more}


def command(program: str, *arguments: str, backend: str, flags: tuple[str, ...] = ("-W", "error")) -> list[str]:
    """How a user starts `program` (a path below examples/): plainly, or with `loopcore run`."""
    run = [] if backend == "asyncio" else ["-m", "loopcore", "run"]
    return [sys.executable, *flags, *run, str(EXAMPLES / program), *arguments]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def run(program: str, *arguments: str, backend: str, typed: str = "", **options: Any) -> Ended:
    """Run a program to its end, with `typed` as its standard input."""
    flags, more = options.pop("flags", ("-W", "error")), options.pop("more", {})
    done = subprocess.run(
        command(program, *arguments, backend=backend, flags=flags),
        env=environment(backend, **more),
        input=typed,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Child:
    """A program that runs beside the test, and is killed at the end of the `with` block if it still does.

    Two threads read what it prints, so that it never waits for its pipes; `life` is in seconds, `more` goes into its
    environment.
    """

    def __init__(self, command: list[str], backend: str, *, life: float = PATIENCE, **more: str) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment(backend, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            process_group=None if sys.platform == "win32" else 0,  # `_kill` ends its children with it
        )
        self._out: Lines = queue.SimpleQueue()
        self._err: Lines = queue.SimpleQueue()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        # A test that waits for the child ends with the child.
        self._watchdog = threading.Timer(life, self._kill)
        self._threads = [
            self._watchdog,
            threading.Thread(target=collect, args=(self.process.stdout, self._out)),
            threading.Thread(target=collect, args=(self.process.stderr, self._err)),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Child":
        return self

    def _kill(self) -> None:
        if sys.platform == "win32":
            self.process.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        self._kill()
        self.process.wait()
        self._watchdog.cancel()
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def line(self) -> str:
        """The next line it prints; empty if it has ended."""
        return self._out.get(timeout=PATIENCE)

    def port(self) -> int:
        """The port in the line that says that it listens."""
        return self._find_port(self._out)

    def port_in_log(self) -> int:
        """As `port`, for a program that says so on standard error."""
        return self._find_port(self._err)

    def wait_for(self, text: str) -> None:
        """Read its standard output up to a line with `text`."""
        seen = []
        while line := self.line():
            if text in line:
                return
            seen.append(line)
        raise AssertionError(f"it ended without {text!r}; it printed {seen}, and {self.end()}")

    def _find_port(self, lines: "Lines") -> int:
        seen = []
        while line := lines.get(timeout=PATIENCE):
            seen.append(line)
            if found := re.search(r"127\.0\.0\.1:(\d+)", line):
                return int(found[1])
        raise AssertionError(f"it does not listen; it printed {seen}, and {self.end()}")

    def type(self, text: str) -> None:
        """Type into its standard input, which stays open."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def stop(self, number: signal.Signals) -> Ended:
        self.process.send_signal(number)
        return self.end()

    def end(self) -> Ended:
        """Wait for its end; what it printed that was not read yet."""
        code = self.process.wait(PATIENCE)
        for thread in self._threads[1:]:
            thread.join()
        return Ended(code, "".join(rest(self._out)), "".join(rest(self._err)))


Lines: TypeAlias = "queue.SimpleQueue[str]"


def collect(pipe: IO[str], lines: Lines) -> None:
    """Put all lines of `pipe` into `lines`, then an empty one."""
    for line in pipe:
        lines.put(line)
    lines.put("")


def rest(lines: Lines) -> Iterator[str]:
    while not lines.empty():
        yield lines.get()


class Peer:
    """A chat client made of a blocking socket."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self.socket.close()

    def send(self, *lines: bytes) -> None:
        self.socket.sendall(b"".join(lines))

    def ask(self, kind: str, **fields: object) -> None:
        self.send(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message; an empty one at the end of the connection."""
        line = self._lines.readline()
        if not line:
            return {}
        assert line.endswith(b"\n"), f"half a line: {line[-80:]!r}"
        message: dict[str, Any] = json.loads(line)
        return message

    def join(self, group: str, name: str) -> None:
        """Join, and read on to the answer."""
        self.ask("join", group=group, name=name)
        assert self.receive() == {"type": "joined", "group": group, "name": name}

    def error(self) -> str:
        """The code of the next message, which is an error."""
        message = self.receive()
        assert message["type"] == "error", message
        assert message["reason"]
        assert set(message) == {"type", "code", "reason"}
        code: str = message["code"]
        return code
