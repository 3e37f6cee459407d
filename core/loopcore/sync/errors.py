"""What a channel raises. All of it says something about the channel, nothing about a mistake of the caller."""

from loopcore.errors import LoopcoreError


class ChannelError(LoopcoreError):
    """Base of these errors; never raised itself."""


class Closed(ChannelError):
    """The other side is gone for good: nothing more can be received, or nobody will receive what is sent."""


class Empty(ChannelError):
    """`try_recv` found nothing; more may come."""


class Full(ChannelError):
    """`try_send` found no room; `send` would wait for it."""


class Lagged(ChannelError):
    """A receiver was too slow, and values that it had not seen were overwritten. The next one is the oldest kept."""

    def __init__(self, missed: int) -> None:
        super().__init__(missed)
        self.missed = missed
        """How many values this receiver will never see, exactly."""

    def __str__(self) -> str:
        return f"{self.missed} value{'s' if self.missed != 1 else ''} missed"
