"""A FastAPI service in which requests are late, for reasons that are not theirs: `driver.py` triggers each.

Start it without the driver: `LOOPCORE_PLUGINS=recorder:signal=USR2 python service.py PORT`.
"""

import asyncio
import ctypes
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio.to_thread
import uvicorn
from fastapi import FastAPI

WORKERS = 2
"""The threads of each pool: few, so that a few requests fill them."""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make the pools small: that of `run_in_executor`, and that in which FastAPI runs plain functions."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WORKERS, "images"))
    anyio.to_thread.current_default_thread_limiter().total_tokens = WORKERS
    yield


app = FastAPI(lifespan=lifespan)
prices = asyncio.Lock()


@app.get("/hello")
async def hello() -> str:
    """Answer at once, if the loop gets to it."""
    return "hello"


@app.get("/report")
async def report(seconds: float = 0.6) -> int:
    """Wait for a process as if this were a thread: the loop stands still."""
    return subprocess.run(["sleep", str(seconds)], check=True).returncode


@app.get("/search")
async def search() -> str:
    """Start a thread whose calls in C hold the GIL all the time: an expression that backtracks."""
    threading.Thread(target=match_addresses, args=(4,), name="matcher").start()
    return "started"


def match_addresses(count: int) -> None:
    """Match what takes some tenths of a second each."""
    for _ in range(count):
        re.match(r"(\w+)+@", "a" * 22)


@app.get("/train")
async def train() -> str:
    """Start threads that compute in Python: each gives up the GIL only when it must, after 5 ms."""
    threading.Thread(target=train_models, args=(5,), name="trainer").start()
    return "started"


def train_models(count: int) -> None:
    """Compute in several threads."""
    for _ in range(count - 1):
        threading.Thread(target=compute_model, args=(1.0,), name="trainer").start()
    compute_model(1.0)


def compute_model(seconds: float) -> None:
    """Compute for so long."""
    total, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for number in range(1000):
            total += number * number


@app.get("/thumbnail")
async def thumbnail() -> str:
    """Use the loop's default executor."""
    return await asyncio.get_running_loop().run_in_executor(None, resize)


def resize() -> str:
    """Take a while in a thread."""
    time.sleep(0.3)
    return "small"


@app.get("/invoice")
def invoice() -> str:
    """Take a while in a thread too: FastAPI calls plain functions there."""
    time.sleep(0.3)
    return "paid"


@app.get("/refresh")
async def refresh() -> str:
    """Hold the lock while something else is awaited."""
    async with prices:
        await asyncio.sleep(0.6)
    return "fresh"


@app.get("/price")
async def price() -> int:
    """Need the lock for a moment."""
    async with prices:
        return 42


@app.get("/statement")
async def statement() -> str:
    """Compute for some 50 ms, and for longer if the core has to be shared."""
    return str(sum(number * number for number in range(500_000)))


@app.get("/crash")
async def crash() -> None:
    """Read address 0, as a faulty extension module might."""
    ctypes.string_at(0)


if __name__ == "__main__":
    config = uvicorn.Config(app, port=int(sys.argv[1]), log_level="warning", loop="loopcore:new_event_loop")
    config.load()  # else the loop stands still for the imports when it starts
    uvicorn.Server(config).run()
