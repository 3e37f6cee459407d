"""The exceptions that channels raise. They report the state of the channel, not a mistake of the caller."""

from loopcore.errors import LoopcoreError


class ChannelError(LoopcoreError):
    """Base of these errors; never raised itself."""


class Closed(ChannelError):
    """The other side is gone for good: nothing more can be received, or nothing that is sent would be received."""


class Empty(ChannelError):
    """`try_recv` found no value; more may come."""


class Full(ChannelError):
    """`try_send` found no room; `send` would wait for it."""


class Lagged(ChannelError):
    """A receiver was too slow: values that it had not seen were overwritten. Its next value is the oldest one kept."""

    def __init__(self, missed: int) -> None:
        super().__init__(missed)
        self.missed = missed
        """The exact number of values that this receiver will never see."""

    def __str__(self) -> str:
        return f"{self.missed} value{'s' if self.missed != 1 else ''} missed"
