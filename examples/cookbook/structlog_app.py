"""structlog: lines of JSON with the context of each task, and loopcore's own reports in the same form.

Start it with `python structlog_app.py`.
"""

import asyncio
import logging
import time

import structlog

import loopcore

SHARED = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.format_exc_info,
]


def configure() -> None:
    """One handler for both kinds of records: structlog's, and those of `logging`, which loopcore and servers use."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


async def handle(request: int) -> None:
    """A task has its own context: what it binds is not in the lines of other tasks."""
    structlog.contextvars.bind_contextvars(request=request)
    log = structlog.get_logger("app")
    log.info("begun")
    await asyncio.sleep(0)
    if request == 2:
        time.sleep(0.5)  # a mistake, for the watchdog
    log.info("done")


async def main() -> None:
    """Two requests at the same time."""
    async with asyncio.TaskGroup() as group:
        for request in (1, 2):
            group.create_task(handle(request), name=f"request-{request}")


if __name__ == "__main__":
    configure()
    loopcore.run(main(), plugins=["watchdog:threshold=0.1"])
