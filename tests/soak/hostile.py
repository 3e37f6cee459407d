"""A server over TLS among clients that reset, half-close, stall and send garbage, beside some that behave.

    python -m tests.soak.hostile                          60 s each: uvicorn and aiohttp, on epoll and asyncio
    python -m tests.soak.hostile --seconds 10 --servers streams --backends poll

To be run in the repository's root. The server is a process; what it holds (tasks, descriptors, memory) it tells itself.
The exit code is 0 if every server stayed alive, answered every request of those that behave, returned to what it held
before, said nothing through the loop's exception handler, and ended cleanly on SIGTERM.

Of memory it shows: after a sixth, half and all of the time, under load; and before and after it at rest, when what is
free has been given back. These two are held against each other; those under load also grow by fragments.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.hostile_clients import HOSTILE, Target, ask_stats, behave
from tests.transports.tls_support import certificate

ROOT = Path(__file__).parent.parent.parent
BEHAVING = 8
"""Clients that behave, at any time; of each hostile kind there are two."""
GROWTH_KIB = 6 * 1024
"""What memory at rest may grow by: what is imported and cached at the first need, some fragments."""
PATIENCE = 20.0
"""Seconds for the server to see that its clients have left, and to end."""


@dataclass
class Outcome:
    """What was seen of one run."""

    before: dict[str, int]
    right: int = 0
    attacks: int = 0
    wrong: list[str] = field(default_factory=list)
    rss_kib: list[int] = field(default_factory=list)
    """After a sixth, half and all of the time."""
    after: dict[str, int] = field(default_factory=dict)
    code: int = 0
    complaints: str = ""

    def faults(self) -> list[str]:
        """Return what is not as it should be."""
        found = self.wrong[:5]
        found += [
            f"{name}: {self.before[name]} before, {self.after[name]} after"
            for name in ("tasks", "descriptors")
            if self.after[name] > self.before[name]
        ]
        if self.right == 0:
            found.append("nobody was answered")
        if self.after["rss_kib"] > self.before["rss_kib"] + GROWTH_KIB:
            found.append(f"KiB of memory at rest: {self.before['rss_kib']} before, {self.after['rss_kib']} after")
        if self.code not in (0, -signal.SIGTERM):  # uvicorn ends by the signal that it was sent
            found.append(f"exit code {self.code}")
        if self.complaints:
            found.append(self.complaints[-2000:])
        return found


@asynccontextmanager
async def serving(server: str, backend: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Start the server; yield its process and port, and do not leave it behind."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/certificate.pem"
        certificate().private_key_and_cert_chain_pem.write_to_path(path)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.hostile_app", server, backend, path),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            yield process, int(await process.stdout.readline() or b"0")
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def attack(server: str, backend: str, seconds: float) -> Outcome:
    """Run the server and all its clients for `seconds`."""
    async with serving(server, backend) as (process, port):
        assert process.stderr is not None
        complaints = asyncio.ensure_future(process.stderr.read())
        target = Target(port, stall=min(5.0, seconds / 4))
        await behave(target)
        outcome = Outcome(before=await ask_stats(target, "/rest"))
        await _load(target, outcome, seconds)
        outcome.after = await _settled(target, outcome.before)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            outcome.code = await process.wait()
        outcome.complaints = (await complaints).decode(errors="replace")
        return outcome


async def _load(target: Target, outcome: Outcome, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def repeat(once: Callable[[Target], Awaitable[object]], pause: float) -> None:
        while loop.time() < end:
            await once(target)
            outcome.attacks += 1
            await asyncio.sleep(pause * target.chance.random())

    async def behave_and_count() -> None:
        while loop.time() < end:
            try:
                outcome.right += await behave(target)
            except (OSError, EOFError, AssertionError) as exc:
                outcome.wrong.append(f"{type(exc).__name__}: {exc}")

    async def sample() -> None:
        for part in (1 / 6, 1 / 2, 1):
            await asyncio.sleep(max(0.0, end - seconds * (1 - part) - loop.time()))
            outcome.rss_kib.append((await ask_stats(target))["rss_kib"])

    async with asyncio.TaskGroup() as group:
        group.create_task(sample())
        for _ in range(BEHAVING):
            group.create_task(behave_and_count())
        for behaviour in HOSTILE * 2:
            group.create_task(repeat(behaviour, 0.1))


async def _settled(target: Target, before: dict[str, int]) -> dict[str, int]:
    """Return the server's figures when they are back to `before`, or after some patience as they are then."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        now = await ask_stats(target, "/rest")
        if all(now[name] <= before[name] for name in ("tasks", "descriptors")):
            return now
        if asyncio.get_running_loop().time() > end:
            return now
        await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Servers over TLS among hostile clients.")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load (default: %(default)s)")
    parser.add_argument("--servers", nargs="+", default=["uvicorn", "aiohttp"], help="uvicorn, aiohttp, streams")
    parser.add_argument("--backends", nargs="+", default=["epoll", "asyncio"], help="asyncio is its own loop")
    options = parser.parse_args()
    failed = False
    print("server   loop     right  attacks  RSS in MiB under load, before > after  tasks fds  objects  exit")
    for server in options.servers:
        for backend in options.backends:
            outcome = asyncio.run(attack(server, backend, options.seconds))
            rss = " ".join(f"{kib / 1024:.1f}" for kib in outcome.rss_kib)
            rss += ", {:.1f} > {:.1f}".format(*(at["rss_kib"] / 1024 for at in (outcome.before, outcome.after)))
            change = [
                f"{outcome.after[name] - outcome.before[name]:+d}" for name in ("tasks", "descriptors", "objects")
            ]
            print(
                f"{server:8} {backend:8} {outcome.right:5} {outcome.attacks:8}  {rss:36} "
                f"{change[0]:5} {change[1]:4} {change[2]:>8} {outcome.code:5}",
                flush=True,
            )
            for fault in outcome.faults():
                failed = True
                print("   " + fault)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
