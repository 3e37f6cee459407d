"""ReaderFeed: feeds asyncio's StreamReader without its protocol (docs/adr/0011).

A program that calls `asyncio.start_server` or `asyncio.open_connection` has a StreamReaderProtocol between the
transport and the StreamReader that it reads from. `data_received` finds the reader, whose `feed_data` appends the bytes
to the unread ones, wakes the waiting task, and pauses the transport when too much is unread: four
functions in Python. A ReaderFeed does the same to the same attributes; large messages are received directly into the
reader's buffer of unread bytes.

It does so only for classes that it knows: asyncio's, and those that inherit the four functions unreplaced and
unwrapped, as Python 3.11 to 3.15 write them. Every other protocol and every other reader is called.

Thread: the loop's own. Raises what the functions raise.
"""

from asyncio import StreamReader, StreamReaderProtocol
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.future import Future

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore._native.interpreter import is_method
else:
    from loopcore._native.interpreter import is_method

if TYPE_CHECKING:
    import asyncio
    import weakref
    from typing import Protocol

    class FedReader(Protocol):
        """The attributes of asyncio's StreamReader that a ReaderFeed reads and writes."""

        _buffer: bytearray
        _eof: bool
        _limit: int
        _paused: bool
        _transport: asyncio.ReadTransport | None
        _waiter: asyncio.Future[None] | Future | None

    class FedProtocol(Protocol):
        """The attributes of asyncio's StreamReaderProtocol that a ReaderFeed uses."""

        _stream_reader_wr: weakref.ref[FedReader] | None

        def data_received(self, data: bytes, /) -> object: ...


_DATA_RECEIVED: object = StreamReaderProtocol.data_received
_READER_OF: object = vars(StreamReaderProtocol).get("_stream_reader")
_FEED_DATA: object = StreamReader.feed_data
_WAKE: object = vars(StreamReader).get("_wakeup_waiter")


def names_in(function: object) -> set[str]:
    """Return the names that `function` mentions, except those that it only asserts."""
    code = getattr(function, "__code__", None)
    return set() if code is None else set(code.co_names) - {"_eof"}


IS_WRITTEN_AS_KNOWN: Final = (
    names_in(_DATA_RECEIVED) == {"_stream_reader", "feed_data"}
    and names_in(getattr(_READER_OF, "fget", None)) == {"_stream_reader_wr"}
    and names_in(_WAKE) == {"_waiter", "cancelled", "set_result"}
    and names_in(_FEED_DATA)
    == {"_buffer", "extend", "_wakeup_waiter", "len", "_limit"}
    | {"_transport", "_paused", "pause_reading", "NotImplementedError"}
)
"""Whether asyncio's functions are the ones that a ReaderFeed replaces, not wrapped and not those of a later Python."""

_FIELDS: Final = ("_buffer", "_eof", "_limit", "_paused", "_transport", "_waiter")
"""The reader's instance attributes. If one were a property, reading it could have any effect."""


class ReaderFeed:
    """Feeds the reader of one StreamReaderProtocol."""

    __slots__ = ("_protocol", "_kind")

    def __init__(self, protocol: "FedProtocol") -> None:
        self._protocol: FedProtocol = protocol
        self._kind: type | None = None
        """The reader's class, once `_is_known` has checked it."""

    def data_received(self, data: bytes) -> None:
        """Take in `data`, as the protocol's `data_received`."""
        feed = self  # keeps this alive: the calls below may give the transport another protocol
        reader = reader_of(feed._protocol)
        unread = feed._unread_of(reader)
        if unread is None:
            feed._protocol.data_received(data)
        else:
            unread += data
            notify(reader, unread)  # type: ignore[arg-type]  # not None: it has unread bytes

    def get_unread(self) -> bytearray | None:
        """Return a bytearray to append received bytes to, followed by `grew`; None: call `data_received`."""
        try:
            return self._unread_of(reader_of(self._protocol))
        except Exception:
            return None  # the protocol will raise it when the bytes are delivered

    def grew(self) -> None:
        """Process bytes that were appended to what `get_unread` returned."""
        reader = reader_of(self._protocol)
        if reader is not None:
            notify(reader, reader._buffer)

    def _unread_of(self, reader: "FedReader | None") -> bytearray | None:
        if reader is None:
            return None
        if type(reader) is not self._kind and not self._is_known(type(reader)):
            return None
        # A method that a program has set on the reader itself is called, even if set during the connection.
        feed_data = getattr(reader, "feed_data", None)
        wake = getattr(reader, "_wakeup_waiter", None)
        if not is_method(feed_data, _FEED_DATA, reader) or not is_method(wake, _WAKE, reader):
            return None
        if reader._eof is not False:  # feed_data() raises, unless assertions are off
            return None
        unread = reader._buffer
        return unread if type(unread) is bytearray else None

    def _is_known(self, kind: Any) -> bool:
        """Return whether a reader of this class keeps its state as asyncio's does."""
        if kind.__getattribute__ is not object.__getattribute__ or any(hasattr(kind, name) for name in _FIELDS):
            return False
        self._kind = kind
        return True


def reader_of(protocol: "FedProtocol") -> "FedReader | None":
    """Return the protocol's `_stream_reader`, which may be None."""
    reference = protocol._stream_reader_wr
    return None if reference is None else reference()


def notify(reader: "FedReader", unread: bytearray) -> None:
    """Wake the task that waits for more, and pause the transport if too much is unread."""
    waiter = reader._waiter
    if waiter is not None:
        reader._waiter = None
        if type(waiter) is Future:
            future = waiter
            if not future.cancelled():
                future._set_result(None)
        elif not waiter.cancelled():
            waiter.set_result(None)
    if len(unread) > 2 * reader._limit:
        pause(reader)


def pause(reader: "FedReader") -> None:
    """Have the transport of `reader` deliver nothing until it is resumed."""
    transport = reader._transport
    if transport is None or reader._paused:
        return
    try:
        transport.pause_reading()
    except NotImplementedError:
        reader._transport = None  # it cannot be paused: everything has to be kept
    else:
        reader._paused = True


def feed_of(protocol: Any) -> ReaderFeed | None:
    """Return a ReaderFeed to replace the `data_received` of `protocol`, which is not buffered; None if none fits."""
    if not IS_WRITTEN_AS_KNOWN or not issubclass(type(protocol), StreamReaderProtocol):
        return None
    receive = getattr(protocol, "data_received", None)
    if not is_method(receive, _DATA_RECEIVED, protocol):
        return None
    kind: Any = type(protocol)
    is_known = kind.__getattribute__ is object.__getattribute__ and getattr(kind, "_stream_reader", None) is _READER_OF
    return ReaderFeed(protocol) if is_known and hasattr(protocol, "_stream_reader_wr") else None
