"""The backends that ship with loopcore, each found by its entry point. (PYTEST_DONT_REWRITE)

A backend imports `loopcore.ports` and what is below it: no kernel, no loop. `sim` imports `loopcore.sim` as well.
"""

from typing import Final

from loopcore.tracebacks import show_sources

DECLARED: Final = {
    "select": "loopcore_backends.select_:SelectBackend",
    "poll": "loopcore_backends.poll_:PollBackend",
    "epoll": "loopcore_backends.epoll:EpollBackend",
    "kqueue": "loopcore_backends.kqueue:KqueueBackend",
    "iocp": "loopcore_backends.iocp:IocpBackend",
    "proactor": "loopcore_backends.proactor:ProactorBackend",
    "uring": "loopcore_backends.uring:UringBackend",
    "sim": "loopcore_backends.sim:SimBackend",
}
"""The entry points again, for `auto`, as reading metadata takes long, and for a copy of loopcore without its metadata:
frozen, vendored, or on PYTHONPATH."""

show_sources(__name__, __path__)
