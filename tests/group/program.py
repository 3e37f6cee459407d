"""A program that runs a group until a signal ends it: `program.py KIND MAIN [DRAIN_TIMEOUT [patient]]`.

It prints the members' process IDs and the port once they serve, and ends with the group's exit code. A patient group
ignores a second signal.
"""

import functools
import os
import sys
from pathlib import Path

from loopcore.group import LoopGroup, Member

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.group import mains


async def announced(member: Member, name: str) -> None:
    """Serve, print what a test needs, and go on as `name` does."""
    server = await member.create_server(lambda: mains.Named(member.index), "127.0.0.1", 0)
    os.write(1, b"%d %d\n" % (os.getpid(), server.sockets[0].getsockname()[1]))
    await getattr(mains, name)(member)


if __name__ == "__main__":
    kind, name, *rest = sys.argv[1:]
    timeout = float(rest[0]) if rest else mains.PATIENCE
    group = LoopGroup(functools.partial(announced, name=name), loops=2, kind=kind, drain_timeout=timeout)
    sys.exit(group.run(escalate="patient" not in rest))
