"""The server under load: started as a separate process if requested; and its memory."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from addresses import Address
from server import loop_name


class ServerFailed(Exception):
    """It did not start, or did not end well."""


@asynccontextmanager
async def started(address: Address, options: Sequence[str]) -> AsyncIterator[tuple[Address, int]]:
    """Start a server with `options` on the kind of loop that runs here; yields its address and process id."""
    on_loopcore = ["-m", "loopcore", "run"] if loop_name().startswith("loopcore") else []
    program = str(Path(__file__).with_name("server.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *on_loopcore, program, *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        if not line:
            raise ServerFailed(f"the server did not start: exit code {await process.wait()}")
        print(line, end="")
        port = re.search(r":(\d+)(?: \(TLS\))?, loop", line)
        yield (Address(address.host, int(port[1]), tls=address.tls) if port else address), process.pid
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        if process.returncode != 0:
            raise ServerFailed(f"the server ended with exit code {process.returncode}")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


class Memory:
    """The resident memory of a process, where the system tells (Linux)."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid

    def now_mib(self) -> float | None:
        return self._field("VmRSS")

    def peak_mib(self) -> float | None:
        return self._field("VmHWM")

    def _field(self, name: str) -> float | None:
        try:
            status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        return int(found[1]) / 1024 if found else None
