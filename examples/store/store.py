"""A store of values by name over lines of text, on loopcore's own streams: a server, and clients that ask it.

    set NAME LENGTH    and LENGTH bytes after the line: stored
    get NAME           value LENGTH, and the bytes; or missing
    quit               ends the connection

python -m loopcore run examples/store/store.py --demo
"""

import argparse
import asyncio
from collections.abc import Sequence

from loopcore import StreamReader, StreamWriter, open_connection, start_server

LARGEST = 1 << 20
"""Bytes that a value may have. Without a bound, a client could have the server keep anything."""


class Refused(Exception):
    """A request that cannot be answered; the text is the answer."""


class Store:
    """Answers the requests of any number of connections."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Handle one connection until its end."""
        try:
            while (line := await reader.readline()).strip() not in (b"", b"quit"):
                await self._answer(line.split(), reader, writer)
                await writer.drain()
        except (Refused, ValueError) as error:  # ValueError: the line is too long, or the length is not a number
            writer.write(b"error %s\n" % str(error).encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _answer(self, words: Sequence[bytes], reader: StreamReader, writer: StreamWriter) -> None:
        match words:
            case [b"set", name, length] if 0 <= int(length) <= LARGEST:
                self._values[name] = await reader.readexactly(int(length))
                writer.write(b"stored\n")
            case [b"get", name] if name in self._values:
                value = self._values[name]
                writer.writelines([b"value %d\n" % len(value), value])
            case [b"get", _]:
                writer.write(b"missing\n")
            case _:
                raise Refused("unknown request")


async def put(reader: StreamReader, writer: StreamWriter, name: str, value: bytes) -> None:
    """Store `value`. Raises Refused."""
    writer.writelines([f"set {name} {len(value)}\n".encode(), value])
    await writer.drain()
    if (answer := await reader.readline()) != b"stored\n":
        raise Refused(answer.decode().strip())


async def get(reader: StreamReader, writer: StreamWriter, name: str) -> bytes | None:
    """Return the value, or None if there is none. Raises Refused."""
    writer.write(f"get {name}\n".encode())
    await writer.drain()
    match (await reader.readline()).split():
        case [b"value", length]:
            return await reader.readexactly(int(length))
        case [b"missing"]:
            return None
        case words:
            raise Refused(b" ".join(words).decode())


async def demo() -> None:
    """Serve on a free port, and be the client as well."""
    server = await start_server(Store().serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await open_connection(*server.sockets[0].getsockname()[:2])
        await put(reader, writer, "small", b"one\ntwo\n")
        await put(reader, writer, "large", bytes(300_000))
        for name in ("small", "large", "none"):
            value = await get(reader, writer, name)
            print(f"{name}: {'missing' if value is None else f'{len(value)} bytes'}")
        try:
            await put(reader, writer, "huge", bytes(LARGEST + 1))
        except (Refused, ConnectionError) as error:
            print(f"huge: {type(error).__name__}")
        writer.close()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=4321)
    parser.add_argument("--demo", action="store_true", help="serve on a free port and ask a few things")
    options = parser.parse_args()
    if options.demo:
        await demo()
        return
    server = await start_server(Store().serve, "127.0.0.1", options.port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
