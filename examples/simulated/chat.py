"""The chat of examples/chat on 20 simulated hosts, with partitions, crashes, power cuts and pauses.

    python -m loopcore sim run examples/simulated/chat.py --seeds 1000 --jobs 2
    python -m loopcore sim run examples/simulated/chat.py:with_takeover --seeds 1000     finds the planted bug

The server and the client's connection are those of examples/chat, unchanged. Each of 18 clients joins one of three
groups, posts, and connects again whenever its connection ends. The tape draws the faults, their hosts and their times.

Four things must hold:

- a session sees what its group was sent, from its own "joined" on: nothing is missing, twice or out of order, except
  for the lines that a "missed" counts;
- a session is a member until its connection ends;
- a post is answered, or its connection ends;
- once the faults are over, every client gets its posts through.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "chat"))

import groups
import server
from addresses import Address
from link import ChatConnection
from messages import Bye, Error, Event, Join, Joined, Left, Missed, Post, Posted

from loopcore import sim
from loopcore.sync import select

PORT = 7000
CLIENTS = 18
GROUPS = ("tea", "coffee", "milk")
POSTS = 2
FAULTS = 12
PATIENCE = 120.0
"""Seconds in which a post is answered. No fault lasts for longer than 30 s."""


class SentLines:
    """What each group was sent, and whether the sessions saw the same."""

    def __init__(self) -> None:
        self.by_group: list[tuple[str, list[Event]]] = []
        self.seen: list[tuple[Session, Event]] = []

    def check(self) -> None:
        """Compare what was seen since the last call."""
        while self.seen:
            session, event = self.seen.pop(0)
            session.check(event, self.by_group)


sent = SentLines()


class RecordedGroup(groups.Group):
    """A group of the server, with a record of the lines it sent."""

    def __init__(self, name: str, capacity: int) -> None:
        super().__init__(name, capacity)
        self._sent: list[Event] = []
        sent.by_group.append((name, self._sent))

    def tell(self, event: Event) -> None:
        if self.members:
            self._sent.append(event)
        super().tell(event)


class Session:
    """A connection of a client, from its "joined" to its end."""

    def __init__(self, group: str, name: str) -> None:
        self.group = group
        self.name = name
        self._places: list[tuple[list[Event], int]] | None = None

    def check(self, event: Event, by_group: list[tuple[str, list[Event]]]) -> None:
        """Raise AssertionError if the group was not sent this event after those that this session saw before."""
        if self._places is None:  # which of the joins under this name is ours, later events decide
            assert event == Joined(self.group, self.name), f"{self.name} saw {event} before its own join"
            lists = [lines for name, lines in by_group if name == self.group]
            self._places = [(lines, place) for lines in lists for place, line in enumerate(lines) if line == event]
        if isinstance(event, Missed):
            sim.reached("a slow client missed lines")
            self._places = [(lines, place + event.count) for lines, place in self._places]
        else:
            self._places = [(lines, place + 1) for lines, place in self._places if lines[place : place + 1] == [event]]
        assert event != Left(self.group, self.name), f"{self.name} is connected, and was said to have left"
        assert self._places, f"{self.name} saw {event}, and {self.group!r} was not sent that as the next line"


class Client:
    """A client of a group, which comes back after every fault."""

    def __init__(self, name: str, group: str, address: Address) -> None:
        self.name = name
        self.group = group
        self.is_done = False
        self._address = address
        self._sessions = 0
        self._posted = 0

    async def run(self) -> None:
        """Connect and talk until the connection ends, again and again. The program of a client's host."""
        name = self.name
        while True:
            with suppress(OSError):
                connection = await ChatConnection.open(self._address)
                try:
                    name = await self._join(connection, name)
                finally:
                    await connection.close()
            await asyncio.sleep(1.0)

    async def _join(self, connection: ChatConnection, name: str) -> str:
        """Be a member until the connection ends; return the name to try next."""
        self._sessions += 1
        await connection.send(Join(self.group, name))
        event = await connection.receive()
        if isinstance(event, Error):
            assert event.code == "name-taken", event
            sim.reached("the old connection still has the name")
            return name + "_"
        if event is not None and not isinstance(event, Bye):
            session = Session(self.group, name)
            sent.seen.append((session, event))
            answers: asyncio.Queue[str] = asyncio.Queue()
            await select(self._read(connection, session, answers), self._post(connection, answers))
        return self.name

    async def _read(self, connection: ChatConnection, session: Session, answers: asyncio.Queue[str]) -> None:
        while (event := await connection.receive()) is not None:
            if isinstance(event, Posted) and event.name == session.name:
                answers.put_nowait(event.text)
            sent.seen.append((session, event))
        sim.reached("a connection ended in order")

    async def _post(self, connection: ChatConnection, answers: asyncio.Queue[str]) -> None:
        while self._posted < POSTS:
            text = f"post {self._posted} of session {self._sessions}"
            await connection.send(Post(self.group, text))
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await answers.get()
            except TimeoutError:
                raise AssertionError(f"{self.name} is connected, and {text!r} was not answered") from None
            assert answer == text
            self._posted += 1
            await asyncio.sleep(5.0)
        self.is_done = True
        await asyncio.Event().wait()


async def serve() -> None:
    """The program of the server's host."""
    chat = server.ChatServer(kept=100)
    await chat.start(Address("0.0.0.0", PORT))
    await asyncio.Event().wait()


def faults(host: sim.Host, others: list[str]) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """The faults of a host: a name, the beginning, the end."""
    return [
        ("a partition", lambda: sim.partition([host.name], others), sim.heal),
        ("a lost direction", lambda: sim.cut(host.name, "server" if host.name != "server" else others[0]), sim.heal),
        ("a crash", host.crash, host.restart),
        ("a power cut", host.power_cut, host.restart),
        ("a pause", host.pause, host.go_on),
    ]


async def disturb(hosts: list[sim.Host]) -> None:
    """Let the tape draw what goes wrong, at whose host, and for how long; in the end everything works again."""
    for number in range(FAULTS):
        await asyncio.sleep(1.0)
        kind = sim.choose(6, "fault: a partition, a lost direction, a crash, a power cut, a pause")
        if not kind:
            continue
        host = hosts[0] if sim.choose(2, "where: at the server") else hosts[1 + number % CLIENTS]
        name, begin, end = faults(host, [each.name for each in hosts if each is not host])[kind - 1]
        sim.reached(f"{name} of {'the server' if host is hosts[0] else 'a client'}")
        begin()
        await asyncio.sleep((1.0, 0.01, 5.0, 30.0)[sim.choose(4, "duration: 1 s, 0.01 s, 5 s, 30 s")])
        end()


async def chat() -> None:
    """A server, clients, faults, and the end of the faults."""
    global sent
    sent = SentLines()
    sim.always(sent.check, "sessions see what their group was sent")
    host = sim.host("server", serve)
    address = Address(host.addresses[0], PORT)
    clients = [Client(f"client{number}", GROUPS[number % len(GROUPS)], address) for number in range(CLIENTS)]
    hosts = [host, *(sim.host(client.name, client.run) for client in clients)]
    await disturb(hosts)
    while not all(client.is_done for client in clients):
        await asyncio.sleep(1.0)


class Takeover(groups.Groups):
    """Groups in which a client that comes back gets its name, although the server still has its old connection.

    The planted bug: when the old connection ends at last, `exit` removes the session that has the name by then.
    """

    def enter(self, group_name: str, name: str) -> groups.Member:
        group = self._groups.get(group_name)
        if group is not None and name in group.members:
            sim.reached("a name was taken over")
            group.members.pop(name).leave()
        return super().enter(group_name, name)


async def main() -> None:
    """The chat, unchanged."""
    with patch.object(groups, "Group", RecordedGroup):
        await chat()


async def with_takeover() -> None:
    """The chat with a planted bug."""
    with patch.object(groups, "Group", RecordedGroup), patch.object(server, "Groups", Takeover):
        await chat()
