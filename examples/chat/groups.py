"""Groups and memberships. A group is a broadcast channel of encoded lines; a member has a receiver. No I/O.

The channel keeps the last `capacity` lines, each once, however many members there are. Other members do not wait for
a slow one: its unread lines are overwritten, and in their place it gets a Missed with their exact number. So memory is
bounded by the number of groups, not by the speed of their members.

A request is answered at once, after all earlier messages of its group: they are drained from the receiver in the same
step, so an answer is never among the missed lines.
"""

from messages import MAX_GROUPS, MAX_MEMBERS, Event, Joined, Left, Members, Missed, Posted, WireError, encode

from loopcore.sync import Lagged, broadcast

BATCH_BYTES = 64 * 1024
"""How much a waiting member takes from a channel at a time; a single line may be as long."""


class Group:
    """A name, a channel, and its members."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.members: dict[str, Member] = {}
        self._sender, receiver = broadcast.Channel[bytes](capacity)
        receiver.close()  # members subscribe for themselves

    def tell(self, event: Event) -> None:
        """Send it to all current members."""
        if self.members:
            self._sender.try_send(encode(event))  # encoded once, not once a member

    def subscribe(self) -> broadcast.Receiver[bytes]:
        return self._sender.subscribe()

    def close(self) -> None:
        self._sender.close()


class Member:
    """One connection in one group."""

    def __init__(self, group: Group, name: str) -> None:
        self.group = group
        self.name = name
        self._receiver = group.subscribe()

    async def next(self) -> bytes:
        """Wait for unseen lines, and return them. Raises Closed after `leave`.

        Cancelled, it has taken nothing.
        """
        try:
            first = await self._receiver.recv()
        except Lagged as gap:
            first = self._told(gap)
        return first + self.unseen(BATCH_BYTES) if len(self._receiver) else first

    def unseen(self, enough_bytes: int | None = None) -> bytes:
        """Return the unseen lines, perhaps none; about `enough_bytes` of them, or all."""
        lines = []
        size = 0
        while len(self._receiver) and (enough_bytes is None or size < enough_bytes):
            try:
                line = self._receiver.try_recv()
            except Lagged as gap:
                line = self._told(gap)
            lines.append(line)
            size += len(line)
        return b"".join(lines)

    def leave(self) -> None:
        """Receive nothing more."""
        self._receiver.close()

    def _told(self, gap: Lagged) -> bytes:
        return encode(Missed(self.group.name, gap.missed))


class Groups:
    """All groups, by name. One exists while it has members."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, group_name: str, name: str) -> Member:
        """Return a new member, without announcing it. Raises WireError, and then nothing has changed."""
        group = self._groups.get(group_name)
        if group is None:
            group = Group(group_name, self._capacity)
        if name in group.members:
            raise WireError("name-taken", f"somebody else in {group_name!r} is called {name!r}")
        if len(group.members) >= MAX_MEMBERS:
            raise WireError("group-full", f"{group_name!r} has {MAX_MEMBERS} members, which is the limit")
        self._groups[group_name] = group
        member = group.members[name] = Member(group, name)
        return member

    def exit(self, member: Member) -> None:
        """End the membership without announcing it."""
        member.leave()
        group = member.group
        del group.members[member.name]
        if not group.members:
            group.close()
            del self._groups[group.name]


class Memberships:
    """The groups that one connection is in, perhaps under another name in each.

    Requests return the lines to send: earlier messages of the group, and the answer. A request that cannot be granted
    raises WireError and has changed nothing.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._members: dict[str, Member] = {}

    def join(self, group: str, name: str) -> Member:
        """Become a member, and announce it to all members, the new one included."""
        if group in self._members:
            raise WireError("already-joined", f"you are in {group!r} already, as {self._members[group].name!r}")
        if len(self._members) >= MAX_GROUPS:
            raise WireError("too-many-groups", f"you are in {MAX_GROUPS} groups, which is the limit")
        member = self._members[group] = self._groups.enter(group, name)
        member.group.tell(Joined(group, name))
        return member

    def leave(self, group: str) -> bytes:
        """Announce it to all members, the leaving one included, and end the membership."""
        member = self._member(group)
        member.group.tell(Left(group, member.name))
        answer = member.unseen()
        del self._members[group]
        self._groups.exit(member)
        return answer

    def post(self, group: str, text: str) -> bytes:
        """Send the text to all members, the sender included, so all see the same order."""
        member = self._member(group)
        member.group.tell(Posted(group, member.name, text))
        return member.unseen()

    def members(self, group: str) -> bytes:
        """Answer with the names of all members."""
        member = self._member(group)
        return member.unseen() + encode(Members(group, tuple(sorted(member.group.members))))

    def drop(self, group: str, *, quietly: bool = False) -> bytes:
        """End the membership without an answer, and announce it to the others unless `quietly`."""
        member = self._member(group)
        unseen = member.unseen()
        del self._members[group]
        self._groups.exit(member)
        if not quietly:
            member.group.tell(Left(group, member.name))
        return unseen

    def names(self) -> list[str]:
        """The groups that it is in, by name."""
        return list(self._members)

    def _member(self, group: str) -> Member:
        try:
            return self._members[group]
        except KeyError:
            raise WireError("not-joined", f"you are not in {group!r}") from None
