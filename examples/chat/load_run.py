"""A run of the load program: members come, post in rounds, and account for every post at the end of each."""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass

from addresses import Address, connect_protocol
from load_members import Ledger, MemberClient, SlowClient, Violation

from loopcore.sync import select

AT_ONCE = 50
"""Connections that are being made at a time."""

WINDOW = 4
"""Posts of a group in flight, without a timetable."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. `rate` is in posts a second for each group; 0 means as many as the server can do."""

    clients: int
    groups: int
    slow: int
    posts: int
    rate: float
    text: int
    nap: float


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one."""

    elapsed: float
    """Seconds from the first post to when all fast members had the last."""
    received: int
    missed: int
    missed_by_fast: int
    latencies_ns: "array[int]"
    """Of what fast members received."""

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(self.latencies_ns)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] / 1e6


class LoadRun:
    """The members of all groups. Every method raises Violation as soon as any member has reason to."""

    def __init__(self, address: Address, plan: Plan) -> None:
        self._address = address
        self._plan = plan
        self._ledger = Ledger()
        self._groups: list[list[MemberClient]] = []
        self._slow: list[SlowClient] = []
        self._posted = 0
        """Posts of each group so far."""

    @property
    def members(self) -> list[MemberClient]:
        return [member for group in self._groups for member in group]

    async def connect(self) -> None:
        """Connect and join all. Returns when each has seen all later joins. Raises OSError, too."""
        places = asyncio.Semaphore(AT_ONCE)

        async def assemble(number: int) -> None:
            plan = self._plan
            size = plan.clients // plan.groups + (number < plan.clients % plan.groups)
            group: list[MemberClient] = []
            self._groups.append(group)
            for place in range(size):
                # Member 0 posts. The slow ones are spread over the groups, after it.
                is_slow = place > 0 and number + (place - 1) * plan.groups < plan.slow
                async with places:
                    group.append(await self._enter(f"group {number}", place, size - place - 1, is_slow=is_slow))

        await self._watched(_all(assemble(number) for number in range(self._plan.groups)))
        await self._watched(_all(member.complete for member in self.members))

    async def _enter(self, group: str, place: int, comrades: int, *, is_slow: bool) -> MemberClient:
        kind = SlowClient if is_slow else MemberClient
        name = f"member {place}"
        _, member = await connect_protocol(self._address, lambda: kind(self._ledger, group, name, comrades))
        if isinstance(member, SlowClient):
            self._slow.append(member)
        member.join()
        await member.joined
        return member

    async def round(self, *, slowly: bool) -> Round:
        """Let all groups post, while the slow members are slow or (not `slowly`) as fast as all others."""
        before = self._count()
        first, self._posted = self._posted, self._posted + self._plan.posts
        self._ledger.latencies_ns = array("q")
        if slowly:
            for member in self._slow:
                member.slow_down(self._plan.nap)
        began = time.monotonic()
        await self._watched(_all(self._post(number, first) for number in range(len(self._groups))))
        fast = [member for member in self.members if not isinstance(member, SlowClient)]
        await self._settle(fast)
        elapsed = time.monotonic() - began
        for member in self._slow:
            member.hurry()
        await self._settle(self._slow)
        received, missed, missed_by_fast = (now - then for now, then in zip(self._count(), before, strict=True))
        self._account(received, missed)
        return Round(elapsed, received, missed, missed_by_fast, self._ledger.latencies_ns)

    async def _post(self, number: int, first: int) -> None:
        plan, poster = self._plan, self._groups[number][0]
        loop = asyncio.get_running_loop()
        padding = "x" * plan.text
        # Groups do not post in step. The clocks of `loop` and `time` need not be the same.
        begin, begin_ns = loop.time() + number / plan.groups / (plan.rate or 1), time.monotonic_ns()
        begin_ns += int((begin - loop.time()) * 1e9)
        for count in range(plan.posts):
            if plan.rate:
                # What is late is measured from when it was due: a server that stalls is not spared (no coordinated
                # omission).
                await asyncio.sleep(begin + count / plan.rate - loop.time())
                due_ns = begin_ns + int(count / plan.rate * 1e9)
            else:
                if count >= WINDOW:
                    await poster.own.acquire()
                due_ns = time.monotonic_ns()
            poster.post(first + count, due_ns, padding)
        for _ in range(min(plan.posts, WINDOW) if not plan.rate else plan.posts):
            await poster.own.acquire()

    async def _settle(self, members: "Iterable[MemberClient]") -> None:
        """Return when `members` have all that was said to them; each must have accounted for all posts."""
        members = list(members)
        for member in members:
            member.ask()
        await self._watched(_all(member.listed for member in members))
        for member in members:
            if member.expected != self._posted:
                raise Violation(
                    f"{member.name} in {member.group}: {member.received} received + {member.missed} missed"
                    f" is not {self._posted}, which were posted"
                )

    def _count(self) -> tuple[int, int, int]:
        members = self.members
        fast = [member for member in members if not isinstance(member, SlowClient)]
        return sum(m.received for m in members), sum(m.missed for m in members), sum(m.missed for m in fast)

    def _account(self, received: int, missed: int) -> None:
        due = self._plan.clients * self._plan.posts
        if received + missed != due:
            raise Violation(f"{received} received + {missed} missed is not {due}, which is clients times posts")

    async def _watched(self, work: Awaitable[None]) -> None:
        """Do `work`, unless there is trouble first."""
        await select(asyncio.shield(self._ledger.trouble), work)

    def close(self) -> None:
        """Leave without a word."""
        for member in self.members:
            member.close()
        self._ledger.trouble.cancel()


async def _all(awaitables: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*awaitables)
