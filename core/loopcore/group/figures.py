"""What a group reports about its members: their state, and their figures with the sum."""

from dataclasses import dataclass

from loopcore.kernel.loop_stats import LoopStatsSnapshot


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member, as the group knows it."""

    index: int
    """Its place in the group, from 0. A member that replaces another takes its place."""
    state: str
    """"starting", "running", "draining" or "ended"."""
    generation: int
    """How often the member in this place has been replaced."""
    pid: int
    """The process that it runs in; 0 before it has started."""
    thread_id: int
    """`threading.get_native_id()` of its loop's thread; 0 before it has started, and on systems that have none."""


@dataclass(frozen=True, slots=True)
class MemberStats:
    """The figures of one member, or their sum (`GroupStats.total`)."""

    index: int
    """Its place in the group; -1 for the sum."""
    responsive: bool
    """Whether its loop answered in time, or has ended. Without an answer the figures are the last that it published,
    and `counters` is None."""
    connections: int
    """Open connections of its servers."""
    accepted: int
    """Connections that its listening sockets accepted."""
    handed_over: int
    """Connections that it accepted and gave to other members."""
    taken_over: int
    """Connections that other members accepted and gave to it."""
    utilization: float
    """The share of the last tenth of a second that the loop's thread worked, 0.0 to 1.0; for the sum, the total."""
    counters: LoopStatsSnapshot | None
    """`loop.counters()`: ticks, tasks, bytes and so on. None if the loop is not loopcore's."""


@dataclass(frozen=True, slots=True)
class GroupStats:
    """The figures of all members at about the same time."""

    members: tuple[MemberStats, ...]
    total: MemberStats


def add_up(members: tuple[MemberStats, ...]) -> MemberStats:
    """Return the sum; `counters` is that of the members that have them."""
    counted = [each.counters for each in members if each.counters is not None]
    return MemberStats(
        index=-1,
        responsive=all(each.responsive for each in members),
        connections=sum(each.connections for each in members),
        accepted=sum(each.accepted for each in members),
        handed_over=sum(each.handed_over for each in members),
        taken_over=sum(each.taken_over for each in members),
        utilization=sum(each.utilization for each in members),
        counters=LoopStatsSnapshot(*map(sum, zip(*counted, strict=True))) if counted else None,
    )
