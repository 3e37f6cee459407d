"""An aiohttp client that asks much at once: requests in parallel, a streamed response, a WebSocket.

    python -m loopcore run examples/http/client_aiohttp.py http://127.0.0.1:8080

Works with either application of this folder. Prints one line; the exit code is 0 if every answer was right.
"""

import argparse
import asyncio
import sys

import aiohttp


async def get_json(session: aiohttp.ClientSession) -> bool:
    async with session.get("/") as response:
        return response.status == 200 and (await response.json())["hello"] == "world"


async def post_echo(session: aiohttp.ClientSession, size: int) -> bool:
    """`size` bytes there and back."""
    body = bytes(range(256)) * (size // 256)
    async with session.post("/echo", data=body) as response:
        return response.status == 200 and await response.read() == body


async def get_stream(session: aiohttp.ClientSession, lines: int) -> bool:
    async with session.get("/stream", params={"n": lines}) as response:
        return [line async for line in response.content] == [b'{"line": %d}\n' % n for n in range(lines)]


async def talk(session: aiohttp.ClientSession, messages: int) -> bool:
    async with session.ws_connect("/ws") as socket:
        for number in range(messages):
            await socket.send_str(f"message {number}")
            if await socket.receive_str() != f"message {number}":
                return False
        await socket.send_bytes(bytes(100_000))
        return await socket.receive_bytes() == bytes(100_000)


async def ask(url: str, requests: int) -> int:
    """`requests` of each kind at once, each on a separate connection; returns the exit code."""
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(url, connector=connector) as session, asyncio.timeout(60):
            jobs = [get_json(session) for _ in range(requests)]
            jobs += [post_echo(session, size=512 * 1024), get_stream(session, lines=500), talk(session, messages=50)]
            answers = await asyncio.gather(*jobs)
    except (aiohttp.ClientError, OSError) as exc:
        print(f"failed: {exc!r}", file=sys.stderr)
        return 1
    print(f"{sum(answers)} of {len(answers)} answers were right", flush=True)
    return 0 if all(answers) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask an application of this folder for all it has.")
    parser.add_argument("url", help="for instance http://127.0.0.1:8080")
    parser.add_argument("--requests", type=int, default=100, help="requests in parallel (default: %(default)s)")
    options = parser.parse_args()
    return asyncio.run(ask(options.url, options.requests))


if __name__ == "__main__":
    sys.exit(main())
