"""TCP sockets: tcp(7).

A write travels over a wire (network.py) into the inbox of the other end. States, errors and readiness are those of
Linux (net/ipv4/tcp.c, tcp_input.c, af_inet.c). Two simplifications: the acknowledgement of a FIN arrives at once,
which no program can see; the acknowledgement that ends a connect is sent again like data, so that a long cut may fail a
client that has sent nothing.
"""

import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.network import GIVES_UP_AFTER, SPLIT_PAUSE, SYN_ACK_RETRIES, SYN_RETRIES, Wire
from loopcore_backends.sim.socket_base import (
    BOTH,
    RECEIVING,
    SENDING,
    InternetSocket,
    any_address,
    full_address,
    is_any,
    mapped,
    show_address,
    shutdown_bits,
)
from loopcore_backends.sim.streams import BINARY, SOMAXCONN, StreamSocket, show_bytes

if TYPE_CHECKING:
    from loopcore_backends.sim.hosts import Host

_SENDS: Final = ("connected", "close wait")
_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", 18)


class TcpSocket(InternetSocket, StreamSocket):
    """A socket of AF_INET or AF_INET6 and SOCK_STREAM.

    `state`: closed, listening, connecting (SYN_SENT), connected (ESTABLISHED), close wait (the peer has sent its end),
    fin wait (this end has sent its own), last ack (both, the peer first).
    """

    def __init__(self, host: "Host", family: int, proto: int = 0) -> None:
        super().__init__(host, family, proto)
        self._call = "none"
        """How far connect(2) has come: none, begun, done. The call that reports the outcome comes after the outcome."""
        self._wire: Wire | None = None
        self._has_ended = False
        """The peer has said that nothing more comes."""
        self._is_orphan = False
        """No descriptor is left."""

    @property
    def is_exclusive(self) -> bool:
        """Whether SO_REUSEADDR does not let another socket have the port."""
        return self.state == "listening"

    # --- making connections -------------------------------------------------------------------------

    def bind(self, address: Any) -> None:
        if self.state != "closed":
            raise error(errno.EINVAL)
        self._bind(address)

    def listen(self, backlog: int) -> None:
        if self._call != "none" or self.state not in ("closed", "listening"):
            raise error(errno.EINVAL)
        if not self._is_bound:
            self.bind((any_address(self.family), 0))
        if self.state != "listening":
            self.host.ports.check(self, self.local[0], self.local[1])
        self.state = "listening"
        self.shut = 0
        self._backlog = max(0, min(backlog, SOMAXCONN))
        self.changed()

    def connect(self, address: Any) -> None:
        if self._call == "done":
            raise error(errno.EISCONN)
        if self._call == "none":
            if self.state != "closed":
                raise error(errno.EISCONN)
            self._call = "begun"
            try:
                self._begin(address)
            except OSError:
                self._call = "none"
                raise
            raise error(errno.EINPROGRESS)
        if self.state == "connecting":
            raise error(errno.EALREADY)
        if self.state == "closed":
            number = self.take_error() or errno.ECONNABORTED
            self._disconnect()
            raise error(number)
        self._call = "done"

    def _begin(self, address: Any) -> None:
        ip, port = str(address[0]), address[1]
        target = self.host.world.network.host_at(ip, self.host)
        ip = self._concrete(ip)
        if not self._is_bound:
            self._bind((self._source_for(ip, target), 0))
        elif is_any(self.local[0]):
            self.local = full_address(self.family, self._source_for(ip, target), self.local[1])
        self.remote = full_address(self.family, ip, port)
        self.state = "connecting"
        self.host.world.note("connect", f"to {show_address(self.remote)}", target.name)
        self._send_request(target, self.remote, 0)

    def _send_request(self, target: "Host", address: Any, attempt: int) -> None:
        def is_over() -> bool:
            return self.state != "connecting" or self.remote is not address  # closed, or shut down and connected again

        if is_over():
            return
        world = self.host.world
        network = world.network
        if attempt > SYN_RETRIES:
            self.fail(errno.ETIMEDOUT)
            return
        label = f"connect from {self.host.name} to {show_address(self.remote)}"

        def again() -> None:
            world.after(float(2**attempt), lambda: self._send_request(target, address, attempt + 1), f"{label}, again")

        def arrive() -> None:
            if is_over():
                return
            if network.is_cut(self.host, target):
                again()
                return
            listener = target.listener_for(self.family, self.remote[0], self.remote[1])
            if listener is None:
                self._send(target, self.host, f"refusal to {self.host.name}", refuse)
            elif listener.is_full():
                again()
            else:
                self._send(target, self.host, f"answer to connect from {self.host.name}", partial(answer, listener))

        def answer(listener: "TcpSocket") -> None:
            if is_over():
                return  # the listener forgets the request
            if network.is_cut(target, self.host):
                again()
            else:
                self._establish(listener)

        def refuse() -> None:
            if is_over():
                return
            if network.is_cut(target, self.host):
                again()
            else:
                self.fail(errno.ECONNREFUSED)

        self._send(self.host, target, label, arrive)

    def _send(self, source: "Host", target: "Host", label: str, arrive: Callable[[], None]) -> None:
        """Carry what a connect sends before there are wires: `arrive` finds out whether it is lost."""
        world = self.host.world
        delay = world.network.delay(source, target, 0, label, retransmits=True)
        if delay:
            world.after(delay, arrive, label)
        else:
            arrive()

    def _establish(self, listener: "TcpSocket") -> None:
        """The answer has come: make the other end, which can be accepted once the acknowledgement has come to it."""
        network = self.host.world.network
        other = TcpSocket(listener.host, listener.family, self.proto)
        other.options.update(listener.options)
        other.local, other.remote = self.remote, self.local
        if listener.family != self.family:  # a socket for both: it sees IPv4 as addresses of IPv6
            other.local, other.remote = mapped(self.remote), mapped(self.local)
        other.state, other._call, other._is_bound = "connected", "done", True
        other.peer, self.peer = self, other
        other._wire = Wire(network, listener.host, self.host)
        self._wire = Wire(network, self.host, listener.host)
        for end, wire in ((self, self._wire), (other, other._wire)):
            wire.on_give_up = partial(end.fail, errno.ETIMEDOUT)
            wire.gives_up_after = end._user_timeout
        self.state = "connected"
        self._wire.send(
            0,
            f"acknowledgement from {self.host.name} to {listener.host.name}",
            lambda: listener._acknowledged(other, 0),
            network.link(self.host, listener.host).delays[0],
        )
        self.changed()

    def _user_timeout(self) -> float:
        """Return for how many seconds what was sent may stay unanswered (TCP_USER_TIMEOUT)."""
        milliseconds: int = self.options.get((socket.IPPROTO_TCP, _USER_TIMEOUT), 0)
        return milliseconds / 1000 or GIVES_UP_AFTER

    def _acknowledged(self, other: "TcpSocket", attempt: int) -> None:
        """Put `other` into the queue of this listener."""
        if other.state == "closed":
            return  # the client has broken it off
        if not self.host.is_on:
            other.abandon()
        elif self.state != "listening":
            other._is_orphan = True
            other._break_off()
        elif not self.is_full():
            self.host.ports.adopt(other)
            self._accepted.append(other)
            self.changed()
        elif attempt < SYN_ACK_RETRIES:
            self.host.world.after(
                float(2**attempt),
                lambda: self._acknowledged(other, attempt + 1),
                f"answer to connect from {other.peer.host.name}, again",
            )
        else:  # as Linux, it tells the client when that sends something
            other.abandon()

    def peer_name(self) -> Any:
        if self.remote is None or self.state in ("closed", "connecting", "listening"):
            raise error(errno.ENOTCONN)
        return self.remote

    # --- the stream ---------------------------------------------------------------------------------

    def read(self, size: int, *, peek: bool = False) -> bytes:
        if self.state == "listening":
            raise error(errno.ENOTCONN)
        if self._inbox:
            return self._take(size, peek)
        if self._has_ended:
            return b""
        self._raise_pending()
        if self.shut & RECEIVING:
            return b""
        if self.state == "closed":
            raise error(errno.ENOTCONN)
        raise error(errno.EAGAIN)

    def write(self, data: "bytes | memoryview") -> int:
        if self.state not in _SENDS:
            self._raise_pending()
            raise error(errno.EAGAIN if self.state == "connecting" else errno.EPIPE)
        if self.error or self.shut & SENDING:
            self._raise_pending()
            raise error(errno.EPIPE)
        size = min(len(data), self._window())
        if not size:
            if not len(data):
                return 0
            raise error(errno.EAGAIN)
        taken = bytes(data[:size])
        self._outstanding += size
        end = self._end_of_first_packet(taken)
        self._send_packet(taken[:end])
        if end < size:
            self._send_packet(taken[end:], SPLIT_PAUSE)
        return size

    def _end_of_first_packet(self, data: bytes) -> int:
        """Choose where one write is split on its way: TCP keeps no boundaries of messages."""
        size = len(data)
        if size < 2:
            return size
        ends = {1: "after one byte", size // 2: "in the middle", size - 1: "before the last byte"}
        label = f"split: {show_bytes(data)} from {self.host.name} to {self.peer.host.name}: {', '.join(ends.values())}"
        end: int = [size, *ends][self.host.world.tape.choose(len(ends) + 1, label)]
        return end

    def _send_packet(self, data: bytes, pause: float = 0.0) -> None:
        world, peer, size = self.host.world, self.peer, len(data)
        preview = show_bytes(data)
        text = preview if preview == BINARY else f"{preview} ({size} bytes)"
        flow = world.new_flow()
        world.note("send", text, peer.host.name, flow, self.host.name)

        def arrive() -> None:
            world.note("arrive", text, self.host.name, flow, peer.host.name)
            peer._arrived(data)

        self._carry(size, f"{preview} from {self.host.name} to {peer.host.name}", arrive, pause)

    def write_some(self, data: "bytes | memoryview") -> int:
        size = min(len(data), self._window())
        if size > 1 and self.state in _SENDS:
            label = f"short write from {self.host.name} to {self.peer.host.name}: half, one byte"
            size = (size, size // 2, 1)[self.host.world.tape.choose(3, label)]
            data = data[:size]
        return self.write(data)

    def send_to(self, data: "bytes | memoryview", address: Any) -> int:
        return self.write(data)  # Linux looks at the address for "fast open" only

    def _carry(self, size: int, label: str, arrive: Any, pause: float = 0.0) -> None:
        if self._wire is not None:
            self._wire.send(size, label, arrive, pause=pause)

    def _arrived(self, data: bytes) -> None:
        if self._is_orphan or self.state == "closed":
            self._answer_with_reset()
        else:
            self._put(data)

    def _answer_with_reset(self) -> None:
        peer = self.peer
        if peer is not None and peer.state != "closed":
            self._carry(0, f"reset to {peer.host.name}", peer.reset)

    def poll(self) -> int:
        if self.state == "listening":
            return READ if self._accepted else 0
        bits = 0
        if self.shut == BOTH or self.state == "closed":
            bits |= HANGUP
        if self.shut & RECEIVING:
            bits |= READ
        if self.state != "connecting":
            if self._inbox:
                bits |= READ
            if self.shut & SENDING or self._is_roomy():
                bits |= WRITE
        if self.error:
            bits |= ERROR
        return bits

    # --- ends ---------------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        bits = shutdown_bits(how)
        if self._call == "begun" and self.state not in ("connecting", "closed"):
            self._call = "done"
        before = self.state
        if before == "connecting" or (before == "listening" and bits & RECEIVING):
            if before == "connecting":
                self.error = errno.ECONNRESET
            self._disconnect()
        elif before != "listening":
            self.shut |= bits
            if bits & SENDING and before in _SENDS:
                self._send_end()
        self.changed()
        if before == "closed":
            raise error(errno.ENOTCONN)

    def _disconnect(self) -> None:
        """Become as new: a listener that is shut down, a connect that failed."""
        self._reset_waiting()
        self._call = "none"
        self.state = "closed"
        self.shut = 0
        self._has_ended = False
        self._inbox.clear()
        self._unread = self._outstanding = 0
        self.peer = self.remote = None

    def _send_end(self) -> None:
        self.state = "fin wait" if self.state == "connected" else "last ack"
        peer = self.peer
        self.host.world.note("close", "nothing more comes", peer.host.name, 0, self.host.name)
        self._carry(0, f"end of stream from {self.host.name} to {peer.host.name}", peer._ended)

    def _ended(self) -> None:
        if self.state == "closed":
            self._answer_with_reset()
            return
        self._has_ended = True
        self.shut |= RECEIVING
        if self.state == "connected":
            self.state = "close wait"
        elif self.state == "fin wait":  # both ends are sent: the acknowledgement ends the peer
            peer = self.peer
            self._is_done()
            if peer.state == "last ack":
                peer._is_done()
        self.changed()

    def _is_done(self) -> None:
        self.state = "closed"
        self.shut = BOTH
        self.changed()

    def reset(self) -> None:
        """The peer has broken the connection off."""
        if self.state != "closed":
            self.fail(errno.EPIPE if self.state == "close wait" else errno.ECONNRESET)

    def fail(self, number: int) -> None:
        """Let the next call report `number`."""
        if self.state != "closed":
            self.error = number
            self._is_done()

    def close(self) -> None:
        before = self.state
        self._is_orphan = True
        self._reset_waiting()
        on, seconds = self.options.get((socket.SOL_SOCKET, socket.SO_LINGER), (0, 0))
        closes_first = before in ("connected", "fin wait")
        if before in ("closed", "listening", "connecting"):
            self.state = "closed"
        elif self._unread or (on and not seconds):
            closes_first = False
            self._break_off()
        elif before in _SENDS:
            self._send_end()
        self._inbox.clear()
        self.host.ports.unbind(self, lingers=closes_first)

    def _reset_waiting(self) -> None:
        for waiting in self._accepted:
            waiting._is_orphan = True
            waiting._break_off()
            waiting.host.ports.unbind(waiting)
        self._accepted.clear()

    def _break_off(self) -> None:
        if self.state == "closed":
            return
        self._is_done()
        peer = self.peer
        self.host.world.note("reset", "the connection is broken off", peer.host.name, 0, self.host.name)
        self._carry(0, f"reset to {peer.host.name}", peer.reset)

    def abandon(self) -> None:
        self._is_orphan = True
        self.state = "closed"
        for waiting in self._accepted:
            waiting.abandon()
        self._accepted.clear()
