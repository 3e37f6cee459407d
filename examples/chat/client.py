"""The chat client: a terminal for people.

    python examples/chat/client.py --port 7000 --name ann --group tea
    ... client.py --host chat.example.org --tls             over TLS
    ... client.py --unix /tmp/chat                          over a Unix socket

A typed line is posted to the group joined last, unless it starts with a slash (COMMANDS in terminal.py). Messages of
others are shown meanwhile. Standard input may be a pipe: `echo hello | client.py --group tea` posts, waits for the
server's answer and leaves.

Exit code 0 after /quit or the end of the input, 1 if the server cannot be reached or goes away, 2 for wrong arguments,
130 after Ctrl-C.
"""

import argparse
import asyncio
import getpass
import sys
from contextlib import suppress

from addresses import Address, add_client_options, client_address
from link import ChatConnection
from messages import WireError
from terminal import COMMANDS, Terminal, render, standard_input

from loopcore.sync import select


async def send_typed(connection: ChatConnection, terminal: Terminal) -> bool:
    """Send what is typed; whether /quit or the end of the input came, and not the end of the connection."""
    with standard_input() as lines:
        async for line in lines:
            if line.strip() == "/quit":
                return True
            try:
                request = terminal.parse(line)
            except ValueError as exc:
                print(exc, flush=True)
                continue
            if request is not None:
                try:
                    await connection.send(request)
                except OSError:  # of which `show_received` tells
                    return False
    return True


async def show_received(connection: ChatConnection) -> None:
    """Print events until the server closes."""
    while (event := await connection.receive()) is not None:
        print(render(event), flush=True)


async def talk(connection: ChatConnection, terminal: Terminal) -> bool:
    """Send and show until one side ends; whether it was ours. Raises OSError and WireError."""
    receiving = asyncio.create_task(show_received(connection))
    try:
        # `wait` raises nothing: if both sides fail, one of the two errors is enough.
        selected = await select(send_typed(connection, terminal), asyncio.wait([receiving]))
        is_ours = selected.branch == 0 and selected.value is True
        if is_ours:
            with suppress(OSError):
                await connection.finish()  # what was sent is still answered, and shown
        await receiving
        return is_ours
    finally:
        receiving.cancel()


async def chat(address: Address, name: str, group: str | None) -> int:
    """One conversation; returns the exit code."""
    try:
        connection = await ChatConnection.open(address)
    except OSError as exc:
        print(f"cannot connect to {address}: {exc}", file=sys.stderr)
        return 1
    terminal = Terminal(name)
    try:
        if group is not None:
            await connection.send(terminal.join(group))
        if await talk(connection, terminal):
            return 0
        print("the server has closed the connection", file=sys.stderr)
    except (OSError, WireError) as exc:
        print(f"connection lost: {exc}", file=sys.stderr)
    finally:
        await connection.close()
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description="A chat client.", epilog=COMMANDS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_client_options(parser)
    parser.add_argument("--name", default=getpass.getuser(), help="your name in groups (default: %(default)s)")
    parser.add_argument("--group", help="join this group at once")
    options = parser.parse_args()
    try:
        return asyncio.run(chat(client_address(parser, options), options.name, options.group))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
