"""The words of kqueue(2): flags, and `kevent`, one record for a change and for an event."""

from typing import Any, Final

EV_ADD: Final = 0x0001
EV_DELETE: Final = 0x0002
EV_ENABLE: Final = 0x0004
EV_DISABLE: Final = 0x0008
EV_ONESHOT: Final = 0x0010
EV_CLEAR: Final = 0x0020
EV_RECEIPT: Final = 0x0040
EV_DISPATCH: Final = 0x0080
EV_ERROR: Final = 0x4000
EV_EOF: Final = 0x8000

NOTE_EXIT: Final = 0x80000000
NOTE_TRIGGER: Final = 0x01000000


class kevent:
    """As `select.kevent`. Two are equal if all their fields are."""

    def __init__(
        self,
        ident: Any,
        filter: int = -1,  # noqa: A002  select's own name
        flags: int = EV_ADD,
        fflags: int = 0,
        data: int = 0,
        udata: int = 0,
    ) -> None:
        self.ident: int = ident if isinstance(ident, int) else ident.fileno()
        if self.ident < 0:
            raise OverflowError("can't convert negative value to unsigned int")
        self.filter = filter
        self.flags = flags
        self.fflags = fflags
        self.data = data
        self.udata = udata

    def _fields(self) -> tuple[int, ...]:
        return (self.ident, self.filter, self.flags, self.fflags, self.data, self.udata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, kevent) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<kevent ident={self.ident} filter={self.filter} flags={self.flags:#x} "
            f"fflags={self.fflags:#x} data={self.data} udata={self.udata:#x}>"
        )
