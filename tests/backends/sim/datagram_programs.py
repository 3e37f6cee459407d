"""Programs over datagram sockets, for test_like_linux.py."""

import os
import socket

from tests.backends.sim.recording import Record


def _udp(r: Record, family: int = socket.AF_INET) -> socket.socket:
    made = r.socket(family, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    return made


def _pair(r: Record) -> list[socket.socket]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for each in pair:
        each.setblocking(False)
        r.keep(each)
    return [*pair]


def datagrams_keep_their_bounds(r: Record) -> None:
    one, other = _udp(r), _udp(r)
    r.ready("new", one, r.socket(socket.AF_INET, socket.SOCK_DGRAM))
    r.call("nothing", other.recvfrom, 10)
    r.call("send", one.sendto, b"first", other.getsockname())
    r.call("empty", one.sendto, b"", other.getsockname())
    r.call("flags", one.sendto, b"second", 0, other.getsockname())
    r.wait(other, "read")
    r.call("peek", other.recvfrom, 2, socket.MSG_PEEK)
    r.call("truncated", other.recvfrom, 2)
    r.wait(other, "read")
    r.call("empty", other.recv, 10)
    r.wait(other, "read")
    buffer = bytearray(3)
    r.call("into", other.recvfrom_into, buffer)
    r.see("buffer", bytes(buffer))
    one.sendto(b"message", other.getsockname())
    r.wait(other, "read")
    message = r.call("message", other.recvmsg, 3)
    r.see("truncated flag", bool(message[2] & socket.MSG_TRUNC))
    r.call("do not wait", other.recv, 10, socket.MSG_DONTWAIT)


def truncation_says_the_length(r: Record) -> None:
    for one, other in ((_udp(r), _udp(r)), _pair(r)):
        if one.family == socket.AF_INET:
            one.connect(other.getsockname())
        one.send(b"12345678")
        r.wait(other, "read")
        buffer = bytearray(4)
        r.call("message", other.recvmsg, 4, 0, socket.MSG_PEEK)
        r.call("into", other.recvmsg_into, [buffer])
        r.see("buffer", bytes(buffer))


def connected_datagram_socket(r: Record) -> None:
    one, other, third = _udp(r), _udp(r), _udp(r)
    r.call("send", one.send, b"x")
    r.call("peer", one.getpeername)
    r.call("connect", one.connect, other.getsockname())
    r.see("peer", one.getpeername() == other.getsockname())
    r.call("send", one.send, b"x")
    r.call("send to another", one.sendto, b"y", third.getsockname())
    r.wait(third, "read")
    r.call("receive", third.recv, 10)
    r.wait(other, "read")
    r.call("receive", other.recv, 10)
    r.call("from a stranger", third.sendto, b"z", one.getsockname())
    r.call("from the peer", other.sendto, b"answer", one.getsockname())
    r.wait(one, "read")
    r.call("receive", one.recv, 10)
    r.call("nothing else", one.recv, 10)
    r.call("connect elsewhere", one.connect, third.getsockname())
    r.call("listen", one.listen)
    r.call("accept", one.accept)
    r.call("bind again", one.bind, ("127.0.0.1", 0))


def connect_binds(r: Record) -> None:
    other = _udp(r)
    sock = r.socket(socket.AF_INET, socket.SOCK_DGRAM)
    r.see("unbound", sock.getsockname())
    sock.connect(other.getsockname())
    r.see("bound", sock.getsockname()[0])
    third = r.socket(socket.AF_INET, socket.SOCK_DGRAM)
    third.sendto(b"x", other.getsockname())
    r.see("by sending", third.getsockname()[0])
    r.wait(other, "read")
    r.see("from", other.recvfrom(10)[1] == ("127.0.0.1", third.getsockname()[1]))
    fourth = r.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fourth.bind(("0.0.0.0", 0))
    fourth.connect(other.getsockname())
    r.see("was any", fourth.getsockname()[0])


def port_unreachable(r: Record) -> None:
    unused = _udp(r)
    address = unused.getsockname()
    unused.close()
    one = _udp(r)
    r.call("not connected", one.sendto, b"x", address)
    r.call("no error", one.sendto, b"x", address)
    r.ready("no error", one)
    one.connect(address)
    r.call("send", one.send, b"x")
    r.wait(one, "error")
    r.ready("refused", one)
    r.call("receive", one.recv, 10)
    r.ready("reported", one)
    r.call("receive again", one.recv, 10)
    r.call("send", one.send, b"x")
    r.wait(one, "error")
    r.call("send reports", one.send, b"x")
    r.call("send again", one.send, b"x")
    r.wait(one, "error")
    r.see("error", one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def udp_that_is_shut_down(r: Record) -> None:
    one, other = _udp(r), _udp(r)
    one.connect(other.getsockname())
    other.sendto(b"x", one.getsockname())
    r.wait(one, "read")
    r.call("reading", one.shutdown, socket.SHUT_RD)
    r.ready("deaf", one)
    r.call("receive", one.recv, 10)
    r.call("receive", one.recv, 10)
    r.call("writing", one.shutdown, socket.SHUT_WR)
    r.ready("shut", one)
    r.call("send", one.send, b"x")


def udp_that_is_shut_down_before_it_is_connected(r: Record) -> None:
    one, other = _udp(r), _udp(r)
    r.call("shutdown", one.shutdown, socket.SHUT_RDWR)
    r.ready("shut all the same", one)
    r.call("connect", one.connect, other.getsockname())
    r.call("send", one.send, b"x")


def too_large(r: Record) -> None:
    one, other = _udp(r), _udp(r)
    r.call("largest", one.sendto, bytes(65_507), other.getsockname())
    r.call("too large", one.sendto, bytes(65_508), other.getsockname())


def wrong_addresses(r: Record) -> None:
    one = _udp(r)
    r.call("no address", one.sendto, b"x")
    r.call("port 0", one.sendto, b"x", ("127.0.0.1", 0))
    r.call("port too large", one.sendto, b"x", ("127.0.0.1", 70_000))
    r.call("no tuple", one.sendto, b"x", "127.0.0.1")
    r.call("none", one.sendto, b"x", None)
    r.call("message to none", one.sendmsg, [b"x"])
    r.call("broadcast", one.sendto, b"x", ("<broadcast>", 9))


def udp_address_in_use(r: Record) -> None:
    one = _udp(r)
    other = r.socket(socket.AF_INET, socket.SOCK_DGRAM)
    r.call("taken", other.bind, one.getsockname())
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    r.call("the other has not allowed it", other.bind, one.getsockname())
    third, fourth = (r.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for each in (third, fourth):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    third.bind(("127.0.0.1", 0))
    r.call("shared", fourth.bind, third.getsockname())
    tcp = r.socket()
    r.call("the same port of TCP", tcp.bind, one.getsockname())


def udp_of_ip_version_6(r: Record) -> None:
    one, other = _udp(r, socket.AF_INET6), _udp(r, socket.AF_INET6)
    r.call("send", one.sendto, b"x", other.getsockname())
    r.wait(other, "read")
    _, address = other.recvfrom(10)
    r.see("from", address == one.getsockname())
    r.see("name", address)


def datagrams_to_both_ip_versions(r: Record) -> None:
    both = r.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    both.bind(("::", 0))
    one = _udp(r)
    r.call("send", one.sendto, b"x", ("127.0.0.1", both.getsockname()[1]))
    r.wait(both, "read")
    r.call("from", both.recvfrom, 10)


def closed_inbox_takes_nothing(r: Record) -> None:
    one, other = _udp(r), _udp(r)
    address = other.getsockname()
    one.sendto(b"lost", address)
    r.wait(other, "read")
    other.close()
    again = r.socket(socket.AF_INET, socket.SOCK_DGRAM)
    r.call("bind again", again.bind, address)
    r.call("nothing", again.recv, 10)


def pair_of_datagram_sockets(r: Record) -> None:
    one, other = _pair(r)
    r.ready("new", one, other)
    r.see("names", [one.getsockname(), one.getpeername()])
    r.call("send", one.send, b"hello")
    r.call("empty", one.send, b"")
    r.call("receive", other.recvfrom, 2)
    r.call("empty", other.recvfrom, 2)
    r.call("nothing", other.recv, 2)
    r.call("by number", os.write, one.fileno(), b"by number")
    r.call("by number", os.read, other.fileno(), 4)
    r.call("nothing left", os.read, other.fileno(), 4)
    one.send(b"kept")
    one.close()
    r.ready("closed", other)
    r.call("receive", other.recv, 10)
    r.call("receive again", other.recv, 10)
    r.call("send", other.send, b"x")
    r.ready("after the error", other)
    r.call("send again", other.send, b"x")
    r.call("peer", other.getpeername)


def pair_of_datagram_sockets_is_full(r: Record) -> None:
    one, other = _pair(r)
    sent = 0
    try:
        while sent < 100_000:
            one.send(b"x")
            sent += 1
    except BlockingIOError:
        pass
    r.see("full before long", 1 < sent < 100_000)
    r.ready("full", one, other)
    for _ in range(sent):
        other.recv(10)
    r.ready("drained", one, other)
    r.call("send", one.send, b"x")


def pair_of_datagram_sockets_with_large_ones(r: Record) -> None:
    one, other = _pair(r)
    r.call("too large", one.send, bytes(1 << 20))
    r.call("large", one.send, bytes(100_000))
    r.call("receive", other.recv, 1 << 20)


def shutdown_of_a_datagram_pair(r: Record) -> None:
    one, other = _pair(r)
    r.call("writing", one.shutdown, socket.SHUT_WR)
    r.ready("shut", one, other)
    r.call("send", one.send, b"x")
    r.call("receive", other.recv, 10)
    r.call("reading", other.shutdown, socket.SHUT_RDWR)
    r.ready("both", one, other)
    r.call("receive", other.recv, 10)
    r.call("receive", one.recv, 10)


def unix_datagrams(r: Record) -> None:
    server, client = (r.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    server.bind("\0loopcore-test-datagrams")
    r.call("nobody", client.sendto, b"x", "\0loopcore-test-nobody")
    r.call("send", client.sendto, b"x", "\0loopcore-test-datagrams")
    r.call("from a nameless one", server.recvfrom, 10)
    r.call("bind", client.bind, "\0loopcore-test-client")
    r.call("connect", client.connect, "\0loopcore-test-datagrams")
    r.call("send", client.send, b"y")
    r.call("from a named one", server.recvfrom, 10)
    r.call("answer", server.sendto, b"answer", "\0loopcore-test-client")
    r.call("receive", client.recvfrom, 10)
    r.see("peer", client.getpeername())
    r.call("not connected", server.send, b"x")
    stranger = r.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    r.call("to a connected one", stranger.sendto, b"x", "\0loopcore-test-client")
    server.close()
    r.call("closed", client.send, b"x")
    r.ready("closed", client)
    r.call("send again", client.send, b"x")
    stream = r.socket(socket.AF_UNIX)
    stream.bind("\0loopcore-test-stream")
    r.call("to a stream", stranger.sendto, b"x", "\0loopcore-test-stream")


def unix_datagrams_fill_the_receiver(r: Record) -> None:
    server, client, third = (r.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3))
    server.bind("\0loopcore-test-full-datagrams")
    client.connect("\0loopcore-test-full-datagrams")
    sent = 0
    try:
        while sent < 100_000:
            client.send(b"x")
            sent += 1
    except BlockingIOError:
        pass
    r.ready("full", client)
    r.call("another", third.sendto, b"x", "\0loopcore-test-full-datagrams")
    for _ in range(sent):
        server.recv(10)
    r.ready("drained", client)
    r.call("send", client.send, b"x")
