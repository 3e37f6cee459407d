"""One port, several processes, a loop in each: `python server.py PORT PROCESSES`.

Every process listens by itself, with SO_REUSEPORT, and the kernel spreads the connections over them. The parent waits,
hands SIGTERM and Ctrl-C on, and ends when its children have ended.
"""

import asyncio
import multiprocessing
import os
import signal
import sys

import loopcore


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo lines, and say who answers."""
    while line := await reader.readline():
        writer.write(b"%d %s" % (os.getpid(), line))
        await writer.drain()
    writer.close()


async def serve(port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    async with await asyncio.start_server(answer, "127.0.0.1", port, reuse_port=True):
        print(f"{os.getpid()} serves on {type(loop).__module__}", flush=True)
        await told.wait()


def worker(port: int) -> None:
    """What a process runs. The loop is made here, in the process that runs it."""
    loopcore.run(serve(port))


def main(port: int, count: int) -> None:
    """Start the processes, and wait for them."""
    processes = [multiprocessing.get_context("spawn").Process(target=worker, args=(port,)) for _ in range(count)]
    told = False

    def hand_on(number: int, frame: object) -> None:
        nonlocal told
        told = True
        for process in processes:
            if process.pid is not None:
                process.terminate()

    # Before the first of them starts, or else a signal that comes in between would end the parent alone.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    for process in processes:
        process.start()
        if told:
            process.terminate()
    for process in processes:
        process.join()
    # A process that was told before it listens has no handler yet, and ends by the signal itself.
    sys.exit(any(process.exitcode not in (0, -signal.SIGTERM) for process in processes))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
