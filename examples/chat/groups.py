"""Who is in which group, and who is told what when somebody joins, leaves or posts. No I/O.

A member is a connection, known here by its outbox, under a name that nobody else in the group has. A connection
may be in several groups, and have another name in each. A method that cannot grant the request raises
WireError and has changed nothing.
"""

from messages import MAX_GROUPS, MAX_MEMBERS, Event, Joined, Left, Members, Posted, WireError, encode
from outbox import Outbox


class Groups:
    def __init__(self) -> None:
        # The same memberships by either end. Neither holds an empty dict.
        self._members: dict[str, dict[str, Outbox]] = {}  # group -> name -> outbox
        self._names: dict[Outbox, dict[str, str]] = {}  # outbox -> group -> name

    def join(self, outbox: Outbox, group: str, name: str) -> None:
        """Make `outbox` a member; all members are told, the new one included."""
        names, members = self._names.get(outbox, {}), self._members.get(group, {})
        if group in names:
            raise WireError("already-joined", f"you are in {group!r} already, as {names[group]!r}")
        if name in members:
            raise WireError("name-taken", f"somebody else in {group!r} is called {name!r}")
        if len(members) >= MAX_MEMBERS:
            raise WireError("group-full", f"{group!r} has {MAX_MEMBERS} members, which is the limit")
        if len(names) >= MAX_GROUPS:
            raise WireError("too-many-groups", f"you are in {MAX_GROUPS} groups, which is the limit")
        self._names.setdefault(outbox, names)[group] = name
        self._members.setdefault(group, members)[name] = outbox
        self._tell(group, Joined(group, name), sender=outbox)

    def leave(self, outbox: Outbox, group: str) -> None:
        """End the membership; all members are told, the leaving one included."""
        left = Left(group, self._name_of(outbox, group))
        self._tell(group, left, sender=outbox)
        self._remove(outbox, group)

    def leave_all(self, outbox: Outbox) -> None:
        """End every membership of a connection that is gone; the others are told."""
        for group, name in list(self._names.get(outbox, {}).items()):
            self._remove(outbox, group)
            self._tell(group, Left(group, name))

    def post(self, outbox: Outbox, group: str, text: str) -> None:
        """Give the text to all members, the sender included: everybody sees the same order."""
        self._tell(group, Posted(group, self._name_of(outbox, group), text), sender=outbox)

    def list(self, outbox: Outbox, group: str) -> None:
        """Answer with the names of all members."""
        self._name_of(outbox, group)
        outbox.reply(encode(Members(group, tuple(sorted(self._members[group])))))

    def _name_of(self, outbox: Outbox, group: str) -> str:
        try:
            return self._names[outbox][group]
        except KeyError:
            raise WireError("not-joined", f"you are not in {group!r}") from None

    def _remove(self, outbox: Outbox, group: str) -> None:
        name = self._names[outbox].pop(group)
        if not self._names[outbox]:
            del self._names[outbox]
        del self._members[group][name]
        if not self._members[group]:
            del self._members[group]

    def _tell(self, group: str, event: Event, sender: Outbox | None = None) -> None:
        line = encode(event)  # once, not once a member
        for outbox in self._members.get(group, {}).values():
            if outbox is sender:
                # Its own request did this, so it is the answer: never dropped, and who posts without reading
                # is slowed down by the outbox instead of drowning the others.
                outbox.reply(line)
            else:
                outbox.offer(group, line)
