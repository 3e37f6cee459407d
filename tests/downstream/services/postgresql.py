"""PostgreSQL's programs, and a place for clusters that leaves nothing behind.

asyncpg's suite is no guest of a running server: it makes clusters of its own, with TLS, with a standby, with damaged
connections, and leaves those tests out where it is given a server (PGHOST). So it is given the programs, and a TMPDIR;
it has to run as `services/unprivileged.py` makes it run.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.downstream.services.packages import provide

DEBIAN = Path("/usr/lib/postgresql")


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Yield where the programs are and where clusters go; afterwards end and remove what the suite has left.

    Clusters do not go into `folder`, but in a short one: a Unix socket's path has at most 107 bytes.
    """
    initdb = provide("initdb", "postgresql", sorted(DEBIAN.glob("*/bin"), reverse=True))
    place = Path(tempfile.mkdtemp(prefix="downstream-"))
    try:
        yield {"PGINSTALLATION": str(initdb.resolve().parent), "TMPDIR": str(place), "HOME": str(place)}
    finally:
        _end_clusters(place)
        shutil.rmtree(place, ignore_errors=True)


def _end_clusters(place: Path) -> None:
    for file in place.glob("*/postmaster.pid"):
        try:
            os.kill(int(file.read_text(encoding="ascii").split()[0]), signal.SIGQUIT)  # "immediate shutdown"
        except (ProcessLookupError, FileNotFoundError):
            pass  # it has ended by itself meanwhile
