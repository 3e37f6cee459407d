"""anyio: the item of a memory object stream is lost when its receiver is cancelled (compare anyio #728).

anyio 4.3.0 has the race. 4.14.2 has it for cancellations that come from asyncio, such as asyncio.timeout; its own
cancel scopes never cancel a task whose future is done.
"""

import asyncio

import anyio

from loopcore.sim import CANCELLED, may_cancel


async def main() -> None:
    sender, receiver = anyio.create_memory_object_stream[str](1)
    with sender, receiver:
        receiving = asyncio.create_task(may_cancel(receiver.receive(), name="receive"))
        await asyncio.sleep(0.01)
        sender.send_nowait("item")
        if await receiving is CANCELLED:
            assert receiver.statistics().current_buffer_used == 1, "the item was lost"
