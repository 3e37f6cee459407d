"""A loop on each processor: one program, several loops, in threads or in processes.

    async def main(member: Member) -> None:
        await member.create_server(Echo, "127.0.0.1", 8888)
        await member.draining()

    if __name__ == "__main__":
        sys.exit(LoopGroup(main, loops=4).run())

Every loop runs `main`, each with another Member. A server that the members create with the same arguments is one: each
loop accepts, and a connection goes to the loop with the least to do. docs/reference/group.md describes the interface,
docs/explanation/several-loops.md what is per loop and what is shared, docs/adr/0024 the reasons.

Members may run on any asyncio loop: only the interface that all loops have is needed. On loopcore's, servers also ask
the policy of connections, and count in the loop's counters.

Imports the loop and the runner; `serving`, `gunicorn`, `sim` and `cli` may import it.
"""

from loopcore.group.errors import GroupError, MemberFailedError
from loopcore.group.figures import GroupStats, MemberStats, MemberStatus
from loopcore.group.group import LoopGroup
from loopcore.group.member import Member, current_member
from loopcore.group.server import GroupServer

__all__ = [
    "GroupError",
    "GroupServer",
    "GroupStats",
    "LoopGroup",
    "Member",
    "MemberFailedError",
    "MemberStats",
    "MemberStatus",
    "current_member",
]
