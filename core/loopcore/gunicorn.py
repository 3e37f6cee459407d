"""A worker class for gunicorn: uvicorn's worker, with each worker's loop made by `loopcore.new_event_loop`.

    gunicorn app:app --worker-class loopcore.gunicorn.LoopcoreWorker --workers 4

The workers inherit `LOOPCORE_BACKEND` and `LOOPCORE_PLUGINS`, which apply as in every program. Each makes its loop
after gunicorn has forked it. Importing this module raises ImportError if gunicorn or uvicorn-worker is missing.
"""

import sys
from typing import Any

from loopcore.errors import BackendUnavailableError, UsageError

try:
    from gunicorn.arbiter import Arbiter
    from uvicorn_worker import UvicornWorker
except ImportError as error:
    raise ImportError(
        f"loopcore.gunicorn needs gunicorn and uvicorn-worker ({error}); install them: "
        'python -m pip install "loopcore[gunicorn]"',
        name=error.name,
    ) from error


class LoopcoreWorker(UvicornWorker):
    """uvicorn's worker for gunicorn, on loopcore.

    To set more of uvicorn's options, derive a class and extend `CONFIG_KWARGS`, the arguments of `uvicorn.Config`.
    """

    CONFIG_KWARGS: dict[str, Any] = {**UvicornWorker.CONFIG_KWARGS, "loop": "loopcore:new_event_loop"}

    def run(self) -> None:
        """Serve, in the worker process, until gunicorn ends it.

        A wrong `LOOPCORE_BACKEND` or `LOOPCORE_PLUGINS` ends gunicorn, which would otherwise keep replacing the worker.
        """
        try:
            super().run()
        except (UsageError, BackendUnavailableError) as error:  # another error ends only this worker
            self.log.error("no event loop could be made: %s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
