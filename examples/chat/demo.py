"""The chat in one program: a server and four clients that talk over real TCP connections.

    python -m loopcore run examples/chat/demo.py
    python examples/chat/demo.py                    the same on asyncio's own loop

Ann and Bob chat. Mallory sends garbage, gets errors, and continues to chat. Sloth joins and reads nothing while Ann
posts a lot: the others do not wait for Sloth, whose client afterwards learns how many messages it missed. The exit code
is 0 if all messages came as the protocol promises (README.md), otherwise 1.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack

from addresses import Address
from link import ChatConnection
from messages import (
    MAX_LINE,
    Bye,
    Error,
    Event,
    Join,
    Joined,
    Leave,
    Left,
    List,
    Members,
    Missed,
    Post,
    Posted,
    Request,
    WireError,
)
from server import ChatServer, loop_name
from terminal import render

FLOOD = 400
FLOOD_TEXT = "news " * 800
"""Of 4,000 characters: 400 posts of it are 1.6 MB, more than all buffers between server and Sloth hold."""

SLOTHS_BUFFER_BYTES = 16 * 1024
"""What the kernel holds for Sloth: little, as for a device far away."""


class Actor:
    """A client with a name, whose messages are printed."""

    def __init__(self, name: str, connection: ChatConnection) -> None:
        self.name = name
        self.connection = connection

    def say(self, arrow: str, text: str) -> None:
        print(f"  {self.name:>8} {arrow} {text}")

    async def send(self, request: Request) -> None:
        self.say("->", str(request))
        await self.connection.send(request)

    async def garbage(self, line: bytes, shown: str, code: str) -> None:
        """Send a wrong line, and expect an error."""
        self.say("->", shown)
        await self.connection.send_bytes(line)
        event = await self.next()
        check(isinstance(event, Error) and event.code == code, f"{code} expected, {event} came")

    async def next(self) -> Event:
        event = await self.connection.receive()
        if event is None:
            raise Failed(f"the server has closed the connection of {self.name}")
        self.say("<-", render(event))
        return event

    async def expect(self, *events: Event) -> None:
        for expected in events:
            event = await self.next()
            check(event == expected, f"{self.name} expected {expected}, {event} came")


class Failed(Exception):
    """The server did not do what the protocol promises."""


def check(condition: bool, complaint: str) -> None:
    if not condition:
        raise Failed(complaint)


async def conversation(ann: Actor, bob: Actor) -> None:
    print("\nAnn and Bob meet:")
    await ann.send(Join("tea", "ann"))
    await ann.expect(Joined("tea", "ann"))
    await bob.send(Join("tea", "ann"))
    check(await bob.next() == Error("name-taken", "somebody else in 'tea' is called 'ann'"), "two are called ann")
    await bob.send(Join("tea", "bob"))
    await bob.expect(Joined("tea", "bob"))
    await ann.expect(Joined("tea", "bob"))
    await ann.send(Post("tea", "hello, Bob"))
    await bob.expect(Posted("tea", "ann", "hello, Bob"))
    await bob.send(Post("tea", "grüß dich, Ann"))
    await ann.expect(Posted("tea", "ann", "hello, Bob"), Posted("tea", "bob", "grüß dich, Ann"))
    await bob.expect(Posted("tea", "bob", "grüß dich, Ann"))
    await bob.send(List("tea"))
    await bob.expect(Members("tea", ("ann", "bob")))
    await bob.send(Leave("tea"))
    await bob.expect(Left("tea", "bob"))
    await ann.expect(Left("tea", "bob"))


async def garbage(mallory: Actor, ann: Actor) -> None:
    print("\nMallory sends garbage, and the connection lives on:")
    await mallory.garbage(b"hello?\n", "hello?", "not-json")
    await mallory.garbage(b"\xff\xfe\n", "two bytes that are not UTF-8", "not-utf8")
    await mallory.garbage(b'{"type":"post","group":"tea"}\n', "a post without its text", "missing-field")
    await mallory.garbage(b"x" * (3 * MAX_LINE) + b"\n", f"a line of {3 * MAX_LINE + 1} bytes", "too-long")
    await mallory.send(Post("tea", "may I?"))
    check(await mallory.next() == Error("not-joined", "you are not in 'tea'"), "posted without having joined")
    await mallory.send(Join("tea", "mallory"))
    await mallory.expect(Joined("tea", "mallory"))
    await ann.expect(Joined("tea", "mallory"))


async def flood(ann: Actor, sloth: Actor) -> int:
    """Ann posts, Sloth does not read until she is done. Returns how many messages Sloth missed."""
    print(f"\nSloth joins and does not read, while Ann posts {FLOOD} times:")
    await sloth.send(Join("news", "sloth"))
    await sloth.expect(Joined("news", "sloth"))
    await ann.send(Join("news", "ann"))
    await ann.expect(Joined("news", "ann"))
    started = time.perf_counter()
    for _ in range(FLOOD):
        await ann.connection.send(Post("news", FLOOD_TEXT))
        event = await ann.connection.receive()
        check(event == Posted("news", "ann", FLOOD_TEXT), f"ann expected her own post, {event} came")
    ann.say("<-", f"all her own posts, {time.perf_counter() - started:.2f} s later: nobody waited for Sloth")

    # Sloth wakes. The answer to the own request is never dropped, and it comes last.
    await sloth.send(Leave("news"))
    received, missed = 0, 0
    while (event := await sloth.connection.receive()) != Left("news", "sloth"):
        match event:
            case Posted():
                received += 1
            case Missed("news", count):
                sloth.say("<-", f"({received} posts, and then:) {render(event)}")
                missed += count
            case Joined():
                sloth.say("<-", render(event))
            case _:
                raise Failed(f"sloth did not expect {event}")
    sloth.say("<-", f"{received} posts received + {missed} missed = {received + missed}")
    check(missed > 0 and received + missed == FLOOD, f"there were {FLOOD} posts")
    await ann.expect(Left("news", "sloth"))
    return missed


async def play(server: ChatServer) -> str:
    """The whole play; returns its summary."""
    address = await server.start(Address(port=0))
    print(f"chat server on {address}, loop {loop_name()}")
    async with AsyncExitStack() as stack:
        cast = []
        for name in ("ann", "bob", "mallory", "sloth"):
            connection = await ChatConnection.open(address, SLOTHS_BUFFER_BYTES if name == "sloth" else None)
            stack.push_async_callback(connection.close)
            cast.append(Actor(name, connection))
        ann, bob, mallory, sloth = cast
        await conversation(ann, bob)
        await garbage(mallory, ann)
        missed = await flood(ann, sloth)
        print("\nThe server shuts down:")
        stopping = asyncio.create_task(server.stop("closing time"))
        for actor in cast:
            await actor.expect(Bye("closing time"))
            check(await actor.connection.receive() is None, f"{actor.name} is still connected")
        await stopping
    return f"4 clients, 6 requests refused, {missed} of {FLOOD} posts missed and counted"


async def main() -> int:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(30):
            summary = await play(ChatServer(kept=50))
    except (Failed, OSError, WireError) as exc:
        print(f"\ndemo FAILED on {loop_name()}: {exc or type(exc).__name__}")
        return 1
    print(f"\ndemo ok on {loop_name()}: {summary}, {time.perf_counter() - started:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
