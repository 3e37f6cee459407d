"""Runs a program over sockets and pipes once on Linux and once in a simulation, and records what its calls did."""

import errno
import select
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.sim import current
from loopcore.sim.running import simulate
from loopcore.sim.tape import Fifo, Tape

BITS = {READ: "read", WRITE: "write", ERROR: "error", HANGUP: "hangup"}
ASKED = {name: mask for mask, name in BITS.items()}
FIRST_EPHEMERAL = 32_768
PATIENCE = 20.0
SO_LINGER_0 = struct.pack("ii", 1, 0)
LARGE = bytes(1 << 20)


class Record:
    """What the calls of a program returned or raised, in lines that say the same on every machine."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._ports: dict[int, str] = {}
        self._stack = ExitStack()

    def keep(self, thing: Any) -> Any:
        """Have `thing` closed at the end; return it."""
        self._stack.callback(thing.close)
        return thing

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Return a new non-blocking socket."""
        made: socket.socket = self.keep(socket.socket(family, kind))
        made.setblocking(False)
        return made

    def call(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function`, and record what it returns, which is returned, or what it raises: then None."""
        try:
            result = function(*args, **kwargs)
        except OSError as exc:
            name = errno.errorcode.get(exc.errno or 0, str(exc.errno))
            self.lines.append(f"{what}: {type(exc).__name__} {name}")
            return None
        except Exception as exc:
            self.lines.append(f"{what}: {type(exc).__name__}")
            return None
        self.see(what, result)
        return result

    def see(self, what: str, value: Any) -> None:
        """Record a value."""
        self.lines.append(f"{what}: {self._shown(value)}")

    def ready(self, what: str, *sockets: Any) -> None:
        """Record for what each of `sockets` is ready."""
        for number, each in enumerate(sockets):
            self.lines.append(f"{what}, ready {number}: {' '.join(readiness(each)) or 'no'}")

    def wait(self, what: Any, bit: str) -> None:
        """Wait until `what` is ready for `bit`: what is sent over loopback may arrive a moment later."""
        if current.is_running():
            world = current.world()
            arrived = world.block(lambda: bit in readiness(what), world.now + PATIENCE)
        else:
            poll = select.poll()
            fd = what if isinstance(what, int) else what.fileno()
            poll.register(fd, ASKED[bit])
            arrived = any(mask & ASKED[bit] for _, mask in poll.poll(PATIENCE * 1000))
        if not arrived:
            self.lines.append(f"not ready for {bit} in {PATIENCE:g} s")

    def close(self) -> None:
        """Close what was kept."""
        self._stack.close()

    def _shown(self, value: Any) -> str:
        if isinstance(value, socket.socket):
            return "a socket"
        if (
            isinstance(value, tuple)
            and len(value) in (2, 4)
            and isinstance(value[1], int)
            and isinstance(value[0], str)
        ):
            return f"({', '.join([repr(value[0]), self._port(value[1]), *map(repr, value[2:])])})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self._shown, value))})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._shown, value))}]"
        if isinstance(value, (bytes, bytearray)) and len(value) > 40:
            return f"{len(value)} bytes"
        return repr(value)

    def _port(self, port: int) -> str:
        if port < FIRST_EPHEMERAL:
            return str(port)
        return self._ports.setdefault(port, f"port {len(self._ports) + 1}")


def readiness(what: Any) -> list[str]:
    """Return for what a socket or descriptor is ready."""
    fd = what if isinstance(what, int) else what.fileno()
    if current.is_running():
        bits = current.world().descriptors.get(fd).poll()
    else:
        poll = select.poll()
        poll.register(fd, select.POLLIN | select.POLLOUT)
        bits = dict(poll.poll(0)).get(fd, 0)
    return [name for bit, name in BITS.items() if bits & bit]


def listener(r: Record, backlog: int = 16, family: int = socket.AF_INET) -> socket.socket:
    made = r.socket(family)
    made.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    made.listen(backlog)
    return made


def accepted(r: Record, listening: socket.socket) -> socket.socket:
    r.wait(listening, "read")
    made: socket.socket = r.keep(listening.accept()[0])
    made.setblocking(False)
    return made


def tcp_pair(r: Record) -> tuple[socket.socket, socket.socket]:
    listening = listener(r)
    client = r.socket()
    client.connect_ex(listening.getsockname())
    server = accepted(r, listening)
    r.wait(client, "write")
    return client, server


def unix_pair(r: Record) -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    for each in (one, other):
        each.setblocking(False)
        r.keep(each)
    return one, other


def fill(sock: socket.socket) -> int:
    total = 0
    while True:
        try:
            total += sock.send(LARGE)
        except BlockingIOError:
            return total


def both_pairs(r: Record, program: Callable[[Record, Any, Any], None]) -> None:
    for name, make in PAIRS.items():
        r.see("pair", name)
        program(r, *make(r))


PAIRS = {"tcp": tcp_pair, "unix": unix_pair}


Program = Callable[[Record], None]


def on_linux(program: Program) -> list[str]:
    """Run `program` on the kernel; return the lines of its record."""
    record = Record()
    try:
        program(record)
    finally:
        record.close()
    return record.lines


def simulated(program: Program) -> list[str]:
    """Run `program` in a simulation that goes on as asyncio does; return the lines of its record."""
    record = Record()

    async def main() -> None:
        try:
            program(record)
        finally:
            record.close()

    outcome = simulate(main, Tape(Fifo()))
    if outcome.error is not None:
        raise outcome.error
    return record.lines


def programs_of(module: ModuleType) -> list[Program]:
    """Return the programs that `module` defines: all its functions."""
    return [
        each
        for each in vars(module).values()
        if getattr(each, "__module__", "") == module.__name__ and not each.__name__.startswith("_")
    ]
