"""The name of asyncio's own loop among those of backends. Programs that tests start import this, and not pytest."""

ORACLE = "asyncio"
