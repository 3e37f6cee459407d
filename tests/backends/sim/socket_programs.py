"""Programs over what Python's module `socket` adds to the calls of the kernel, for test_like_linux.py."""

import os
import socket
from typing import Any

from tests.backends.sim.recording import Record, accepted, listener, tcp_pair, unix_pair


def closed_sockets(r: Record) -> None:
    sock = r.socket()
    sock.close()
    r.see("number", sock.fileno())
    r.call("close again", sock.close)
    r.call("send", sock.send, b"x")
    r.call("receive", sock.recv, 1)
    r.call("name", sock.getsockname)
    r.call("peer", sock.getpeername)
    r.call("bind", sock.bind, ("127.0.0.1", 0))
    r.call("listen", sock.listen)
    r.call("accept", sock.accept)
    r.call("connect", sock.connect, ("127.0.0.1", 9))
    r.call("connect_ex", sock.connect_ex, ("127.0.0.1", 9))
    r.call("shutdown", sock.shutdown, socket.SHUT_WR)
    r.call("option", sock.getsockopt, socket.SOL_SOCKET, socket.SO_ERROR)
    r.call("set option", sock.setsockopt, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    r.call("dup", sock.dup)
    r.call("detach", sock.detach)
    r.call("blocking", sock.setblocking, False)
    r.call("inheritable", sock.get_inheritable)
    r.call("timeout", sock.gettimeout)
    r.call("all", sock.sendall, b"x")


def descriptor_closed_underneath(r: Record) -> None:
    one, other = unix_pair(r)
    os.close(one.fileno())
    r.call("send", one.send, b"x")
    r.ready("the peer sees the end", other)
    r.call("end", other.recv, 10)
    r.call("close", one.close)
    r.see("closed", one.fileno())


def copies_of_sockets(r: Record) -> None:
    one, other = unix_pair(r)
    copy = r.keep(one.dup())
    r.see("another number", copy.fileno() != one.fileno())
    r.see("copy", [copy.gettimeout(), copy.get_inheritable(), copy.family == one.family, copy.type == one.type])
    one.close()
    r.call("send", copy.send, b"x")
    r.call("receive", other.recv, 10)
    copy.close()
    r.call("end", other.recv, 10)


def blocking_is_shared_by_copies(r: Record) -> None:
    one, _ = unix_pair(r)
    copy = r.keep(one.dup())
    copy.setblocking(True)
    r.see("timeouts", [one.gettimeout(), copy.gettimeout()])
    r.see("of the system", [os.get_blocking(one.fileno()), os.get_blocking(copy.fileno())])
    one.settimeout(5)
    r.see("with a timeout", [os.get_blocking(one.fileno()), one.getblocking(), one.timeout])


def detached(r: Record) -> None:
    one, other = unix_pair(r)
    fd = one.detach()
    r.see("number", one.fileno())
    r.call("send", one.send, b"x")
    r.call("write", os.write, fd, b"x")
    again = r.keep(socket.socket(fileno=fd))
    r.see("found out", [again.family == socket.AF_UNIX, again.type == socket.SOCK_STREAM, again.proto])
    r.see("blocks", [again.gettimeout(), os.get_blocking(fd)])
    r.call("send", again.send, b"y")
    r.call("receive", other.recv, 10)


def made_from_numbers(r: Record) -> None:
    client, server = tcp_pair(r)
    copy = r.keep(socket.fromfd(client.fileno(), socket.AF_INET, socket.SOCK_STREAM))
    r.see("another", copy.fileno() != client.fileno())
    r.call("send", copy.send, b"x")
    r.wait(server, "read")
    r.call("receive", server.recv, 10)
    r.see("protocol", copy.proto)
    whole = r.keep(socket.socket(fileno=os.dup(client.fileno())))
    r.see("found out", [whole.family == socket.AF_INET, whole.type == socket.SOCK_STREAM, whole.proto])
    r.call("negative", socket.socket, fileno=-1)
    r.call("text", socket.socket, fileno="text")
    reader, writer = os.pipe()
    r.call("pipe", socket.socket, fileno=reader)
    os.close(reader)
    os.close(writer)
    r.call("closed", socket.socket, fileno=writer)


def kinds_of_sockets(r: Record) -> None:
    sock = r.keep(socket.socket())
    r.see("default", [sock.family == socket.AF_INET, sock.type == socket.SOCK_STREAM, sock.proto, sock.gettimeout()])
    sock = r.keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC))
    r.see("flags", [int(sock.type), sock.gettimeout(), sock.getblocking()])
    r.call("nothing", sock.recv, 1)
    sock = r.keep(socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP))
    r.see("protocol", [sock.proto, sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)])
    sock = r.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    r.see("datagrams", [sock.proto, sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)])
    r.call("family", socket.socket, 99, socket.SOCK_STREAM)
    r.call("type", socket.socket, socket.AF_INET, 99)
    r.call("protocol", socket.socket, socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_UDP)
    r.see("text", [repr(sock.family), repr(sock.type), repr(sock).startswith("<socket.socket fd=")])
    sock.close()
    r.see("closed text", repr(sock).startswith("<socket.socket [closed] fd=-1"))


def pairs_of_sockets(r: Record) -> None:
    one, other = socket.socketpair()
    for each in (one, other):
        r.keep(each)
        r.see("end", [each.family == socket.AF_UNIX, each.getsockname(), each.getpeername(), each.gettimeout()])
        r.see("inheritable", each.get_inheritable())
    one, other = socket.socketpair(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    for each in (one, other):
        r.keep(each)
        r.see("not blocking", [each.gettimeout(), int(each.type)])
    r.call("of TCP", socket.socketpair, socket.AF_INET)


def files_of_sockets(r: Record) -> None:
    one, other = unix_pair(r)
    for each in (one, other):
        each.setblocking(True)
    out, into = one.makefile("wb"), other.makefile("rb")
    out.write(b"first\nsecond\n")
    out.flush()
    r.call("line", into.readline)
    one.close()
    r.call("still open", out.write, b"third\n")
    r.call("flush", out.flush)
    r.see("open", one.fileno() >= 0)
    out.close()
    r.see("closed", one.fileno())
    r.call("rest", into.read)
    into.close()
    with other.makefile("rw", encoding="utf-8", newline="\n") as text:
        r.see("modes", [text.readable(), text.writable(), text.encoding])
    other.close()


def connections_of_the_module(r: Record) -> None:
    server = r.keep(socket.create_server(("127.0.0.1", 0)))
    r.see("server", [server.getsockname(), server.gettimeout()])
    r.see("reuse", server.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR))
    client = r.keep(socket.create_connection(server.getsockname(), timeout=5))
    r.see("client", [client.gettimeout(), client.getpeername() == server.getsockname()])
    accepted_one, _ = server.accept()
    r.keep(accepted_one)
    r.call("send", client.sendall, b"hello")
    r.call("receive", accepted_one.recv, 10)
    by_name = r.keep(socket.create_connection(("localhost", server.getsockname()[1])))
    r.see("by name", by_name.getpeername()[0])
    address = server.getsockname()
    server.close()
    r.call("refused", socket.create_connection, address)
    r.call("again", lambda: r.keep(socket.create_server(accepted_one.getsockname())))


def timeouts(r: Record) -> None:
    listening = r.keep(socket.create_server(("127.0.0.1", 0)))
    listening.settimeout(0.01)
    r.call("accept", listening.accept)
    one, other = unix_pair(r)
    one.settimeout(0.01)
    r.call("receive", one.recv, 10)
    r.call("receive into", one.recv_into, bytearray(4))
    r.call("send", one.sendall, bytes(1 << 24))
    r.call("do not wait", other.recv, 1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    r.call("negative", one.settimeout, -1)
    r.call("text", one.settimeout, "text")
    one.settimeout(0)
    r.see("zero", [one.gettimeout(), one.getblocking()])
    one.settimeout(None)
    r.see("none", [one.gettimeout(), one.getblocking()])
    r.call("do not wait", one.recv, 1, socket.MSG_DONTWAIT)
    socket.setdefaulttimeout(3)
    try:
        new = r.keep(socket.socket())
        r.see("default", [new.gettimeout(), os.get_blocking(new.fileno())])
        pair = socket.socketpair()
        r.see("pair", [r.keep(each).gettimeout() for each in pair])
    finally:
        socket.setdefaulttimeout(None)


def blocking_connect_and_accept(r: Record) -> None:
    listening = r.keep(socket.create_server(("127.0.0.1", 0)))
    client = r.keep(socket.socket())
    r.call("connect", client.connect, listening.getsockname())
    r.call("connect again", client.connect, listening.getsockname())
    server, address = listening.accept()
    r.keep(server)
    r.see("address", address == client.getsockname())
    client.setblocking(False)
    r.call("send", server.sendall, b"x" * 100_000)
    got = b""
    while len(got) < 100_000:
        r.wait(client, "read")
        got += client.recv(100_000)
    r.see("all", len(got))
    unused = r.socket()
    unused.bind(("127.0.0.1", 0))
    refused = r.keep(socket.socket())
    r.call("refused", refused.connect, unused.getsockname())
    r.call("refused again", refused.connect_ex, unused.getsockname())
    r.call("and connected", refused.connect_ex, listening.getsockname())


def wait_for_all(r: Record) -> None:
    client, server = tcp_pair(r)
    server.setblocking(True)
    client.send(b"12345")
    client.send(b"67890")
    r.call("all", server.recv, 10, socket.MSG_WAITALL)
    client.send(b"abc")
    client.close()
    r.call("until the end", server.recv, 10, socket.MSG_WAITALL)


def data_out_of_nowhere(r: Record) -> None:
    client, server = tcp_pair(r)
    r.call("flags", client.send, b"x", socket.MSG_NOSIGNAL)
    r.wait(server, "read")
    r.call("zero into", server.recv_into, bytearray(0))
    r.call("too small", server.recv_into, bytearray(2), 5)
    r.call("negative", server.recv_into, bytearray(2), -1)
    r.call("read only", server.recv_into, b"xx")
    r.call("receive", server.recv_into, bytearray(2), 1)


def descriptors_are_reused(r: Record) -> None:
    first, second, third = r.socket(), r.socket(), r.socket()
    numbers = [each.fileno() for each in (first, second, third)]
    second.close()
    first.close()
    again = [r.socket().fileno(), r.socket().fileno()]
    r.see("lowest first", again == numbers[:2])
    listening = listener(r)
    client = r.socket()
    client.connect_ex(listening.getsockname())
    number = third.fileno()
    third.close()
    server = accepted(r, listening)
    r.see("accepted", server.fileno() == number)


def names_of_hosts(r: Record) -> None:
    def addresses(*args: Any, **kwargs: Any) -> list[Any]:
        return sorted((int(a), int(b), c, e) for a, b, c, _, e in socket.getaddrinfo(*args, **kwargs))

    r.call("numeric", addresses, "127.0.0.1", 80, type=socket.SOCK_STREAM)
    r.call("text for the port", addresses, "127.0.0.1", "80", type=socket.SOCK_STREAM)
    r.call("version 6", addresses, "::1", 80, type=socket.SOCK_STREAM)
    r.call("wrong family", addresses, "::1", 80, socket.AF_INET, socket.SOCK_STREAM)
    r.call("wrong family", addresses, "127.0.0.1", 80, socket.AF_INET6, socket.SOCK_STREAM)
    r.call("datagrams", addresses, "127.0.0.1", 80, socket.AF_INET, socket.SOCK_DGRAM)
    r.call("protocol", addresses, "127.0.0.1", 80, 0, 0, socket.IPPROTO_TCP)
    r.call("none", addresses, None, 80, socket.AF_INET, socket.SOCK_STREAM)
    r.call("passive", addresses, None, 80, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
    r.call("neither", addresses, None, None)
    r.call("only numbers", addresses, "localhost", 80, 0, 0, 0, socket.AI_NUMERICHOST)
    r.call("only numbers", addresses, "127.0.0.1", 80, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    r.call("unknown service", addresses, "127.0.0.1", "no-such-service")
    r.call("by name", socket.gethostbyname, "127.0.0.1")
    r.call("name of", socket.getnameinfo, ("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    r.call("packed", socket.inet_aton, "127.0.0.1")
    r.call("every kind", addresses, "127.0.0.1", 80, socket.AF_INET)
