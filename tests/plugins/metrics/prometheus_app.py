"""The web application of prometheus_show.py: one handler that works, one that waits, one that blocks."""

import asyncio
import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/")
async def root() -> dict[str, str]:
    return {"hello": "world"}


@app.get("/database")
async def database() -> dict[str, int]:
    await asyncio.sleep(0.005)
    return {"rows": await asyncio.to_thread(len, "rows")}


@app.get("/report")
async def report() -> dict[str, int]:
    time.sleep(0.5)  # what nobody should do
    return {"rows": 1}
