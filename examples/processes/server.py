"""One port, several processes, a loop in each: `python server.py PORT PROCESSES`.

Every process has a listening socket with SO_REUSEPORT, and the kernel, if it is Linux, distributes the connections. The
parent waits, passes SIGTERM and Ctrl-C on, and ends when its children have ended.
"""

import asyncio
import multiprocessing
import os
import signal
import sys

import loopcore


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo lines, each after the ID of this process."""
    while line := await reader.readline():
        writer.write(b"%d %s" % (os.getpid(), line))
        await writer.drain()
    writer.close()


async def serve(port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with await asyncio.start_server(answer, "127.0.0.1", port, reuse_port=True):
        print(f"{os.getpid()} serves on {type(loop).__module__}", flush=True)
        await stopping.wait()


def worker(port: int) -> None:
    """Run a loop in this process. It is also made here, not in the parent."""
    loopcore.run(serve(port))


def main(port: int, count: int) -> None:
    """Start the processes, and wait for them."""
    processes = [multiprocessing.get_context("spawn").Process(target=worker, args=(port,)) for _ in range(count)]
    stopped = False

    def pass_on(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True
        for process in processes:
            if process.pid is not None:
                process.terminate()

    # Before the first process starts: a signal that comes in between would otherwise end the parent alone.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    for process in processes:
        process.start()
        if stopped:
            process.terminate()
    for process in processes:
        process.join()
    # A process that gets SIGTERM before it listens has no handler yet, and is ended by the signal.
    sys.exit(any(process.exitcode not in (0, -signal.SIGTERM) for process in processes))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
