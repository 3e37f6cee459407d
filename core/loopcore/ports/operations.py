"""Operations: requests to a completion port, and where their results are stored.

An operation is its own key: `submit` takes it, completions name it, `cancel` ends it. The caller keeps the
object and may submit it again after it has ended, so that a connection needs one for receiving and one for sending,
not two for each message. It must not be changed while it is pending, except for `quiet`.

Results, as the port delivers them in `(operation, result, more)`; an error is an OSError instead of the result:

    Accept        int: a new descriptor, non-blocking and not inheritable; it belongs to the receiver
    Connect       None
    Receive       bytes, b"" at the end of the stream; or Lent, if `lend` is set
    Send          int: bytes taken, perhaps fewer than offered
    ReceiveFrom   (bytes, address)
    SendTo        int: bytes taken
    Shutdown      None
    Poll          int: a union of the bits in `loopcore.ports.interest`
    Read          bytes, b"" at the end of the file
    Write         int: bytes taken, perhaps fewer than offered
    SendFile      int: bytes taken, 0 at the end of the file
    WaitProcess   int: the exit status as wait(2) encodes it
    Open          int: a descriptor, not inheritable
    Sync, Close   None
    Stat          os.stat_result

Multishot (Accept, Receive, ReceiveFrom, Poll with `edges`): one submission, any number of results with `more` true, and
one terminal completion with `more` false: the end of the stream, an error, or a result after which the operation has to
be submitted again. Thread: the loop's own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ACCEPT: Final = 0
CONNECT: Final = 1
RECEIVE: Final = 2
SEND: Final = 3
RECEIVE_FROM: Final = 4
SEND_TO: Final = 5
SHUTDOWN: Final = 6
POLL: Final = 7
READ_FILE: Final = 8
WRITE_FILE: Final = 9
SEND_FILE: Final = 10
WAIT_PROCESS: Final = 11
OPEN: Final = 12
SYNC: Final = 13
STAT: Final = 14
CLOSE: Final = 15

NAMES: Final = (
    "ACCEPT", "CONNECT", "RECEIVE", "SEND", "RECEIVE_FROM", "SEND_TO", "SHUTDOWN", "POLL", "READ", "WRITE",
    "SEND_FILE", "WAIT_PROCESS", "OPEN", "SYNC", "STAT", "CLOSE",
)  # fmt: skip


def name_of(code: int) -> str:
    """Return the name of the operations with this code, or its number if it is a third party's. For messages."""
    return NAMES[code] if 0 <= code < len(NAMES) else f"operation {code}"


class Lent(Protocol):
    """A piece of the port's memory with received data; call `give_back` exactly once, when the data has been used."""

    view: memoryview

    def give_back(self) -> None: ...


class Operation:
    """Base class of all operations. `code` is one of the numbers above."""

    __slots__ = ("code", "fd", "target", "result", "pending", "quiet", "slot")

    def __init__(self, code: int, fd: int, target: Any = None) -> None:
        self.code: int = code
        self.fd: int = fd
        """The descriptor that the operation works on; -1 if there is none yet."""
        self.target: Any = target
        """Core's: the Runnable that a completion is for."""
        self.result: Any = None
        """Core's: the latest result, while the target runs."""
        self.pending: bool = False
        """Core's: submitted, and its terminal completion not yet dispatched."""
        self.quiet: bool = False
        """Nothing waits for its success: success alone need not end a wait, and is reported when the wait ends."""
        self.slot: Any = None
        """The port's, while the operation is in flight; core does not use it."""

    def __repr__(self) -> str:
        return f"<{name_of(self.code)} fd={self.fd}{' pending' if self.pending else ''}>"


class Accept(Operation):
    """accept(2), multishot."""

    __slots__ = ()

    def __init__(self, fd: int, target: Any = None) -> None:
        Operation.__init__(self, ACCEPT, fd, target)


class Connect(Operation):
    """connect(2) to `address`, as `socket.connect` takes it, with a numeric host."""

    __slots__ = ("address",)

    def __init__(self, fd: int, address: Any, target: Any = None) -> None:
        Operation.__init__(self, CONNECT, fd, target)
        self.address: Any = address


class Receive(Operation):
    """recv(2), multishot: at most `limit` bytes per result; with `lend` they stay in the port's memory (see Lent)."""

    __slots__ = ("limit", "lend")

    def __init__(self, fd: int, limit: int, target: Any = None) -> None:
        Operation.__init__(self, RECEIVE, fd, target)
        self.limit: int = limit
        self.lend: bool = False


class Outgoing(Operation):
    """Base class of Send and Write: `buffers` go out without the first `head` bytes of the first one."""

    __slots__ = ("buffers", "head")

    def __init__(self, code: int, fd: int, target: Any = None) -> None:
        Operation.__init__(self, code, fd, target)
        self.buffers: Sequence[Any] = ()
        self.head: int = 0


class Send(Outgoing):
    """sendmsg(2) of `buffers`, without the first `head` bytes of the first one."""

    __slots__ = ()

    def __init__(self, fd: int, target: Any = None) -> None:
        Outgoing.__init__(self, SEND, fd, target)


class ReceiveFrom(Operation):
    """recvfrom(2), multishot: datagrams of at most `limit` bytes; longer ones are truncated."""

    __slots__ = ("limit",)

    def __init__(self, fd: int, limit: int, target: Any = None) -> None:
        Operation.__init__(self, RECEIVE_FROM, fd, target)
        self.limit: int = limit


class SendTo(Operation):
    """sendto(2) of `buffer` to `address`; None sends to the peer that the socket is connected to."""

    __slots__ = ("buffer", "address")

    def __init__(self, fd: int, buffer: "ReadableBuffer", address: Any, target: Any = None) -> None:
        Operation.__init__(self, SEND_TO, fd, target)
        self.buffer: ReadableBuffer = buffer
        self.address: Any = address


class Shutdown(Operation):
    """shutdown(2); `how` is one of `socket.SHUT_*`."""

    __slots__ = ("how",)

    def __init__(self, fd: int, how: int, target: Any = None) -> None:
        Operation.__init__(self, SHUTDOWN, fd, target)
        self.how: int = how


class Poll(Operation):
    """Readiness for `interest`, a union of READ and WRITE: once, immediately if it is ready now. Any descriptor.

    With `edges` it is multishot: a result if it is ready now, and one for each arrival after that. Data that was not
    read is not reported again, so the caller reads until the descriptor is empty. HANGUP then also means that the peer
    has stopped sending. A port without edge-triggered polls ends it with its first result.
    """

    __slots__ = ("interest", "edges")

    def __init__(self, fd: int, interest: int, target: Any = None, *, edges: bool = False) -> None:
        Operation.__init__(self, POLL, fd, target)
        self.interest: int = interest
        self.edges: bool = edges


class Read(Operation):
    """read(2) of at most `limit` bytes, from `offset`, or from the file's current position if it is -1."""

    __slots__ = ("limit", "offset")

    def __init__(self, fd: int, limit: int, offset: int = -1, target: Any = None) -> None:
        Operation.__init__(self, READ_FILE, fd, target)
        self.limit: int = limit
        self.offset: int = offset


class Write(Outgoing):
    """writev(2) of `buffers` without the first `head` bytes, to `offset`, or at the file's position if it is -1."""

    __slots__ = ("offset",)

    def __init__(self, fd: int, offset: int = -1, target: Any = None) -> None:
        Outgoing.__init__(self, WRITE_FILE, fd, target)
        self.offset: int = offset


class SendFile(Operation):
    """sendfile(2): at most `count` bytes of the descriptor `file`, from `offset`, to the socket `fd`."""

    __slots__ = ("file", "offset", "count")

    def __init__(self, fd: int, file: int, offset: int, count: int, target: Any = None) -> None:
        Operation.__init__(self, SEND_FILE, fd, target)
        self.file: int = file
        self.offset: int = offset
        self.count: int = count


class WaitProcess(Operation):
    """waitid(2) for the child `pid`, with WNOWAIT: the caller has to reap the child.

    So its pid stays in use, and a cancelled wait loses no exit status. Only for ports with Capability.PROCESSES.
    """

    __slots__ = ("pid",)

    def __init__(self, pid: int, target: Any = None) -> None:
        Operation.__init__(self, WAIT_PROCESS, -1, target)
        self.pid: int = pid


class Open(Operation):
    """open(2) of `path`, bytes. Like Sync, Stat and Close, only for ports with Capability.FILES."""

    __slots__ = ("path", "flags", "mode")

    def __init__(self, path: bytes, flags: int, mode: int, target: Any = None) -> None:
        Operation.__init__(self, OPEN, -1, target)
        self.path: bytes = path
        self.flags: int = flags
        self.mode: int = mode


class Sync(Operation):
    """fsync(2), or fdatasync(2) if `data_only`."""

    __slots__ = ("data_only",)

    def __init__(self, fd: int, data_only: bool, target: Any = None) -> None:
        Operation.__init__(self, SYNC, fd, target)
        self.data_only: bool = data_only


class Stat(Operation):
    """stat(2) of `path`, bytes, or fstat(2) of `fd` if `path` is None; lstat(2) if `follow` is false."""

    __slots__ = ("path", "follow")

    def __init__(self, fd: int, path: bytes | None, follow: bool = True, target: Any = None) -> None:
        Operation.__init__(self, STAT, fd, target)
        self.path: bytes | None = path
        self.follow: bool = follow


class Close(Operation):
    """close(2)."""

    __slots__ = ()

    def __init__(self, fd: int, target: Any = None) -> None:
        Operation.__init__(self, CLOSE, fd, target)
