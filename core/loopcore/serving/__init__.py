"""Serving: an ASGI application on all loops of a group, under uvicorn or hypercorn.

    loopcore serve app:app                                       the command
    sys.exit(loopcore.serving.serve("app:app", loops=4))         the same from a program

`draining` and `is_draining` tell the application that its server is about to end; docs/howto/serve-all-cores.md has
examples. `Drain` is the ASGI middleware behind them.

Imports the group; `gunicorn`, `sim` and `cli` may import it.
"""

from typing import TYPE_CHECKING, Any

from loopcore.serving.drain import Drain, draining, is_draining

if TYPE_CHECKING:
    from loopcore.serving.command import serve

__all__ = ["Drain", "draining", "is_draining", "serve"]


def __getattr__(name: str) -> Any:
    if name == "serve":  # on first use: an application that only watches `draining` needs no group
        from loopcore.serving.command import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
