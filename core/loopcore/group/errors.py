"""Errors of groups: a member that could not do its part, and what to do."""

from loopcore.errors import LoopcoreError


class GroupError(LoopcoreError):
    """A group could not do what it was asked for; the message says which member, and why."""


class MemberFailedError(GroupError):
    """A member ended by an exception, or its process died. `__cause__` is the exception, if there was one."""
