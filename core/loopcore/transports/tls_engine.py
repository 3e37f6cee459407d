"""TLS without I/O: the peer's ciphertext goes in and plaintext comes out; and the other way round.

One `ssl.SSLObject` between two `ssl.MemoryBIO`. The engine knows neither transports nor loops nor time; its caller
has these, moves the bytes, and asks for as much as it can use. So plaintext that the peer cannot take yet stays
plaintext, and ciphertext that the program does not want yet stays ciphertext: nothing is buffered twice.

A session moves through six states and never back:

    IDLE       nothing has been sent; early ciphertext may be put in
    HANDSHAKE  the two sides agree on keys; written bytes wait
    OPEN       bytes flow both ways
    FLUSHING   closing: written bytes are still being encrypted, new ones are not accepted
    SHUTDOWN   our close_notify was made, the peer's is awaited; other bytes from the peer are dropped
    DONE       the session has ended, cleanly or not

`TRANSITIONS` is the complete table; an event that it does not list is an error of the caller, and a RuntimeError.

Renegotiation (TLS 1.2 and older) follows the context: OpenSSL 3 refuses a client's unless configured to allow it,
and OP_NO_RENEGOTIATION refuses any. During a renegotiation, a write may have to wait for the peer's messages, and a
read produces ciphertext that has to be sent.

Errors of TLS are `ssl.SSLError`, as OpenSSL words them. Errors of reading do not interrupt: bytes decrypted before are
returned, and the error waits in `failure`. Sizes are in bytes. Thread: any, one at a time.
"""

from typing import TYPE_CHECKING, Any, Final

from loopcore.transports.buffers import VECTOR_LIMIT, Buffer, join_last

try:
    import ssl
except ImportError:  # a Python built without OpenSSL
    ssl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from _typeshed import ReadableBuffer

IDLE = 0
HANDSHAKE = 1
OPEN = 2
FLUSHING = 3
SHUTDOWN = 4
DONE = 5

STARTED: Final = "started"
AGREED: Final = "agreed"
CLOSED: Final = "closed"
NOTIFIED: Final = "notified"
ENDED: Final = "ended"

TRANSITIONS: Final = {
    (IDLE, STARTED): HANDSHAKE,
    (HANDSHAKE, AGREED): OPEN,
    (OPEN, CLOSED): FLUSHING,
    (FLUSHING, NOTIFIED): SHUTDOWN,
    (IDLE, ENDED): DONE,
    (HANDSHAKE, ENDED): DONE,
    (OPEN, ENDED): DONE,
    (FLUSHING, ENDED): DONE,
    (SHUTDOWN, ENDED): DONE,
    (DONE, ENDED): DONE,
}

NAMES: Final = ("idle", "handshake", "open", "flushing", "shutdown", "done")

RECORD_LIMIT = 16384
"""Most bytes of plaintext in one record (RFC 8446, 5.1). One read of OpenSSL returns one record."""

BATCH_LIMIT = 7 * RECORD_LIMIT
"""Bytes encrypted at once. Their ciphertext stays below 120 KiB, for the reasons given in docs/adr/0011."""

# C variables when compiled, for use with each message: the names that others import are looked up as Python objects.
_OPEN, _FLUSHING = OPEN, FLUSHING
_VECTOR_LIMIT = VECTOR_LIMIT
_WHOLE, _BATCH = RECORD_LIMIT, BATCH_LIMIT

# SSLSyscallError without an error of the system: OpenSSL found the BIO empty and reports it in another way.
AGAIN: "Final[tuple[type[ssl.SSLError], ...]]" = () if ssl is None else (ssl.SSLWantReadError, ssl.SSLSyscallError)


class TlsEngine:
    """One TLS session.

    Raises what `SSLContext.wrap_bio` raises (ValueError for a name that cannot be checked, and others).
    """

    __slots__ = (
        "state",
        "agreed",
        "peer_closed",
        "failure",
        "unencrypted",
        "tls",
        "_incoming",
        "_outgoing",
        "_put",
        "_take",
        "_read",
        "_write",
        "_pending",
        "_held",
        "_unread",
        "_queue",
    )

    def __init__(self, context: "SSLContext", server_side: bool, server_hostname: str | None) -> None:
        self.state: int = IDLE
        self.agreed: bool = False
        """Whether there was a handshake, so that `fact` has results."""
        self.peer_closed: bool = False
        """Whether the peer's close_notify was read: no plaintext will follow."""
        self.failure: BaseException | None = None
        """The error that ended reading, without a traceback. OpenSSL would report none for the bytes that follow."""
        self.unencrypted: int = 0
        """Bytes written and not encrypted yet."""
        self._incoming: ssl.MemoryBIO = ssl.MemoryBIO()
        self._outgoing: ssl.MemoryBIO = ssl.MemoryBIO()
        self.tls: ssl.SSLObject = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        # Bound once, as each message needs them.
        self._put: Callable[[ReadableBuffer], int] = self._incoming.write
        self._take: Callable[[], bytes] = self._outgoing.read
        self._read: Any = self.tls.read
        self._write: Callable[[ReadableBuffer], int] = self.tls.write
        self._pending: Callable[[], int] = self.tls.pending
        self._held: bool = False
        """Whether OpenSSL holds plaintext of a record that was read in part."""
        self._unread: int = 0
        """Upper bound of the waiting ciphertext: asking the BIO each time costs more than the rest of a read here."""
        self._queue: list[Buffer] = []

    def _move(self, event: str) -> None:
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise RuntimeError(f"a TLS session that is {NAMES[self.state]} cannot be {event}")
        self.state = following

    # The handshake

    def start(self) -> None:
        """Begin the handshake; `shake_hands` continues it."""
        self._move(STARTED)

    def shake_hands(self) -> bool:
        """Advance the handshake as far as the received bytes allow; return whether it is over.

        Raises ssl.SSLError, or its subclass ssl.SSLCertVerificationError; there may then be an alert to send.
        """
        try:
            self.tls.do_handshake()
        except AGAIN:
            return False
        self._unread = self._incoming.pending
        self._move(AGREED)
        self.agreed = True
        return True

    def fact(self, name: str) -> Any:
        """Return a result of the handshake: the "peercert", the "cipher" or the "compression"."""
        if name == "peercert":
            return self.tls.getpeercert()
        return self.tls.cipher() if name == "cipher" else self.tls.compression()

    # From the peer

    def receive(self, data: "ReadableBuffer") -> None:
        """Take in bytes that the peer has sent."""
        self._unread += self._put(data)

    def received_size(self) -> int:
        """Return how many bytes of ciphertext wait to be read."""
        return self._incoming.pending

    def readable(self) -> bool:
        """Return whether reading may give something."""
        return (self._held or self._unread > 0) and self.failure is None

    def read(self) -> bytes:
        """Return all available plaintext; empty if there is none, which `peer_closed` and `failure` explain."""
        first = b""
        parts: list[bytes] | None = None
        while self.readable():
            part = self._read_record(None)
            self._held = False  # a record's rest is shorter than the size requested
            if not part:
                break
            if parts is not None:
                parts.append(part)
            elif first:
                parts = [first, part]
            else:
                first = part
        return first if parts is None else b"".join(parts)

    def read_into(self, view: memoryview) -> int:
        """Put plaintext into `view`, writable bytes, until it is full or there is no more; return how many bytes."""
        size = len(view)
        filled = 0
        while filled < size and self.readable():
            part = view[filled:] if filled else view
            try:
                count: int = self._read_record(part) or 0
            finally:
                if filled:
                    part.release()
            self._held = count == size - filled and self._pending() > 0
            if count == 0:
                break
            filled += count
        return filled

    def _read_record(self, view: memoryview | None) -> Any:
        """Read one record, or what `view` holds of it; return the bytes or their number, or a false value if none."""
        got: Any = None
        try:
            got = self._read(_WHOLE) if view is None else self._read(len(view), view)
            if not got:
                self.peer_closed = True
        except AGAIN:
            pass  # only a part of a record is there
        except ssl.SSLZeroReturnError:  # instead of an empty read, once our own close_notify was sent
            self.peer_closed = True
        except ssl.SSLError as exc:
            # The traceback's frames and their callers would live as long as the error, which the program may keep.
            self.failure = exc.with_traceback(None)
        self._unread = self._incoming.pending
        return got

    # To the peer

    def write(self, item: Buffer, size: int) -> None:
        """Queue `item`, which is `size` bytes long and not empty, to be encrypted."""
        queue = self._queue
        queue.append(item)
        self.unencrypted += size
        if len(queue) % _VECTOR_LIMIT == 0:
            join_last(queue)

    def outgoing_size(self) -> int:
        """Return how many bytes `take_ciphertext` would return without encrypting: handshake, alerts, answers."""
        return self._outgoing.pending

    def take_ciphertext(self) -> bytes:
        """Encrypt the next `BATCH_LIMIT` bytes of the queue, and return everything to be sent.

        Empty when there is nothing. Raises ssl.SSLError.
        """
        if self.unencrypted and self.failure is None and (self.state == _OPEN or self.state == _FLUSHING):
            self._encrypt()
            return self._take()
        return self.take_outgoing()

    def take_outgoing(self) -> bytes:
        """Return TLS's own messages and bytes already encrypted; empty if there is nothing."""
        return self._take() if self._outgoing.pending else b""

    def _encrypt(self) -> None:
        batch = self._take_batch()
        size = len(batch)
        self.unencrypted -= size  # an interrupt in `_write` arrives after OpenSSL has taken it
        done = 0
        try:
            done = self._write(batch)
            if done < size:  # SSL_write(3) may take a part only, depending on its mode; not observed with Python's
                view = memoryview(batch)
                while done < size:
                    done += self._write(view[done:])
        except AGAIN:  # a message of the peer must be read first
            self._queue.insert(0, memoryview(batch)[done:])
            self.unencrypted += size - done

    def _take_batch(self) -> Buffer:
        """Remove the first `BATCH_LIMIT` bytes from the queue, joined: each call of OpenSSL makes a record."""
        queue = self._queue
        if self.unencrypted <= _BATCH:
            if len(queue) == 1:
                return queue.pop()
            joined = b"".join(queue)
            queue.clear()
            return joined
        taken = 0
        size = 0
        while size < _BATCH:
            size += len(queue[taken])
            taken += 1
        parts = queue[:taken]
        del queue[:taken]
        excess = size - _BATCH
        if excess:
            last = memoryview(parts.pop())
            cut = len(last) - excess
            parts.append(last[:cut])
            queue.insert(0, last[cut:])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # The end

    def begin_close(self) -> None:
        """Accept no more writes; what is queued will still be encrypted."""
        self._move(CLOSED)

    def notify(self) -> None:
        """Make our close_notify, after the last queued byte. Raises ssl.SSLError."""
        # OpenSSL looks for the peer's close_notify in the same call, and reports plaintext before it as an error.
        self.drop()
        try:
            self.tls.unwrap()
            self.peer_closed = True
        except AGAIN:
            pass
        except ssl.SSLZeroReturnError:
            self.peer_closed = True
        self._move(NOTIFIED)

    def drop(self) -> int:
        """Read and drop the available plaintext; return how many bytes it was."""
        return len(self.read())

    def end(self) -> None:
        """End the session: nothing is read, written or encrypted any more. Idempotent."""
        self._move(ENDED)
        self._queue.clear()
        self.unencrypted = 0
        self._held = False
        self.failure = None

    def forget(self) -> None:
        """Drop bytes that have not been sent and bytes that have not been read."""
        if self._outgoing.pending:
            self._take()
        if self._incoming.pending:
            self._incoming.read()
