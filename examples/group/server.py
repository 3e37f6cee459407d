"""A counter over HTTP on several loops: `python server.py PORT [LOOPS] [threads|processes]`.

Every loop has its own state, here a counter, as it would have its own pool of database connections. `GET /total` asks
all of them. SIGTERM and Ctrl-C end the server: requests that have begun are answered.
"""

import asyncio
import functools
import json
import sys

from loopcore.group import LoopGroup, Member, current_member

served = {}
"""Requests that each member of this process has answered, by index. A loop's thread writes its own entry only."""


def served_here() -> int:
    """Return what this member has served. Called on its loop, by `run_on`."""
    return served[current_member().index]


class Counter:
    """Answers requests of one connection after another, until the client closes it or the member drains."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.idle: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while not self.member.is_draining:
                self.idle.add(writer)
                head = await reader.readuntil(b"\r\n\r\n")
                self.idle.discard(writer)
                body = await self.answer(head.split()[1])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.idle.discard(writer)
            writer.close()

    async def answer(self, path: bytes) -> bytes:
        """Return the body for a path."""
        index = self.member.index
        served[index] += 1
        if path != b"/total":
            return json.dumps({"member": index, "served": served[index]}).encode()
        counts = await asyncio.gather(*(self.member.run_on(each, served_here) for each in range(self.member.count)))
        return json.dumps({"total": sum(counts)}).encode()


async def main(member: Member, port: int) -> None:
    """Serve, on each loop."""
    served[member.index] = 0
    counter = Counter(member)
    server = await member.start_server(counter.serve, "127.0.0.1", port)
    print(f"member {member.index} serves port {server.sockets[0].getsockname()[1]}", flush=True)
    await member.draining()
    for writer in list(counter.idle):  # a client that keeps its connection would keep the member until the deadline
        writer.close()


if __name__ == "__main__":
    port = int(sys.argv[1])
    loops = int(sys.argv[2]) if len(sys.argv) > 2 else None
    kind = sys.argv[3] if len(sys.argv) > 3 else "auto"
    sys.exit(LoopGroup(functools.partial(main, port=port), loops=loops, kind=kind).run())
