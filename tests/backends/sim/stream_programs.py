"""Programs over stream sockets, for test_like_linux.py."""

import os
import socket
import stat
import struct
import tempfile
from typing import Any

from tests.backends.sim.recording import SO_LINGER_0, Record, accepted, both_pairs, fill, listener, tcp_pair, unix_pair

# --- making connections -----------------------------------------------------------------------------


def connection_is_made(r: Record) -> None:
    listening = listener(r)
    r.see("listening", listening.getsockname())
    r.ready("before", listening)
    client = r.socket()
    r.ready("new", client)
    r.see("unbound", client.getsockname())
    r.call("peer of a new one", client.getpeername)
    r.call("connect", client.connect_ex, listening.getsockname())
    r.wait(client, "write")
    r.wait(listening, "read")
    r.ready("connected", client, listening)
    r.see("error", client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    r.call("again", client.connect, listening.getsockname())
    r.call("once more", client.connect_ex, listening.getsockname())
    server, address = listening.accept()
    r.keep(server)
    r.see("same address", address == client.getsockname())
    r.see("peers", [client.getpeername() == server.getsockname(), server.getpeername() == client.getsockname()])
    r.see("blocks", [server.gettimeout(), server.getblocking(), server.get_inheritable()])
    r.ready("accepted", client, server, listening)
    r.call("accept again", listening.accept)
    r.call("connect to the client", r.socket().connect, client.getsockname())


def connection_is_refused(r: Record) -> None:
    unused = r.socket()
    unused.bind(("127.0.0.1", 0))
    client = r.socket()
    r.call("connect", client.connect, unused.getsockname())
    r.wait(client, "error")
    r.ready("refused", client)
    r.call("send", client.send, b"x")
    r.ready("after the error", client)
    r.call("receive", client.recv, 1)
    r.call("peer", client.getpeername)
    r.call("again", client.connect_ex, unused.getsockname())
    r.wait(client, "error")
    r.see("error", client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    r.see("no error", client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    r.ready("afterwards", client)


def refused_connection_is_reported_by_connect(r: Record) -> None:
    unused = r.socket()
    unused.bind(("127.0.0.1", 0))
    client = r.socket()
    r.call("connect", client.connect, unused.getsockname())
    r.wait(client, "error")
    r.call("the same call again", client.connect, unused.getsockname())
    listening = listener(r)
    r.call("elsewhere", client.connect, listening.getsockname())
    r.wait(client, "write")
    r.ready("connected", client)


def reading_reports_that_it_was_refused(r: Record) -> None:
    unused = r.socket()
    unused.bind(("127.0.0.1", 0))
    client = r.socket()
    client.connect_ex(unused.getsockname())
    r.wait(client, "error")
    r.call("receive", client.recv, 1)
    r.call("receive again", client.recv, 1)
    r.call("send", client.send, b"x")
    r.call("shutdown", client.shutdown, socket.SHUT_RDWR)


def socket_that_is_not_connected(r: Record) -> None:
    sock = r.socket()
    r.call("send", sock.send, b"x")
    r.call("receive", sock.recv, 1)
    r.call("shutdown", sock.shutdown, socket.SHUT_WR)
    r.call("peer", sock.getpeername)
    r.call("accept", sock.accept)
    r.call("send to", sock.sendto, b"x", ("127.0.0.1", 9))
    r.ready("new", sock)
    sock.bind(("127.0.0.1", 0))
    r.ready("bound", sock)
    r.call("accept of bound", sock.accept)


def unix_socket_that_is_not_connected(r: Record) -> None:
    sock = r.socket(socket.AF_UNIX)
    r.call("send", sock.send, b"x")
    r.call("receive", sock.recv, 1)
    r.call("shutdown", sock.shutdown, socket.SHUT_WR)
    r.call("peer", sock.getpeername)
    r.call("name", sock.getsockname)
    r.call("accept", sock.accept)
    r.call("listen without a name", sock.listen)
    r.ready("new", sock)


def listening_socket_does_nothing_else(r: Record) -> None:
    listening = listener(r)
    r.call("send", listening.send, b"x")
    r.call("receive", listening.recv, 1)
    r.call("connect", listening.connect, listener(r).getsockname())
    r.call("bind", listening.bind, ("127.0.0.1", 0))
    r.call("listen", listening.listen, 5)
    r.call("peer", listening.getpeername)
    r.see("accepts", listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    r.call("accept", listening.accept)
    r.ready("listening", listening)
    r.call("shutdown of writing", listening.shutdown, socket.SHUT_WR)
    r.ready("after", listening)


def shutdown_ends_listening(r: Record) -> None:
    listening = listener(r)
    address = listening.getsockname()
    r.call("shutdown", listening.shutdown, socket.SHUT_RD)
    r.ready("shut", listening)
    r.call("accept", listening.accept)
    client = r.socket()
    client.connect_ex(address)
    r.wait(client, "error")
    r.see("error", client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    r.call("listen again", listening.listen, 5)
    r.see("accepts", listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def closing_the_listener_resets_those_who_wait(r: Record) -> None:
    listening = listener(r)
    client = r.socket()
    client.connect_ex(listening.getsockname())
    r.wait(listening, "read")
    r.wait(client, "write")
    client.send(b"hello")
    listening.close()
    r.wait(client, "error")
    r.ready("reset", client)
    r.call("receive", client.recv, 1)
    r.call("receive", client.recv, 1)
    r.call("send", client.send, b"x")


def unix_listener_that_is_closed(r: Record) -> None:
    listening = r.socket(socket.AF_UNIX)
    listening.bind("\0loopcore-test-closed")
    listening.listen(5)
    client = r.socket(socket.AF_UNIX)
    r.call("connect", client.connect, "\0loopcore-test-closed")
    r.ready("connected", client, listening)
    r.call("send", client.send, b"hello")
    listening.close()
    r.ready("closed", client)
    r.call("receive", client.recv, 1)
    r.call("receive", client.recv, 1)
    r.call("send", client.send, b"x")
    r.call("connect again", r.socket(socket.AF_UNIX).connect, "\0loopcore-test-closed")


def data_waits_for_accept(r: Record) -> None:
    listening = listener(r)
    client = r.socket()
    client.connect_ex(listening.getsockname())
    r.wait(client, "write")
    r.call("send", client.send, b"early")
    client.close()
    server = accepted(r, listening)
    r.wait(server, "read")
    r.ready("accepted", server)
    r.call("peer", server.getpeername)
    r.call("receive", server.recv, 10)
    r.call("end", server.recv, 10)


def reset_connection_is_accepted(r: Record) -> None:
    listening = listener(r)
    client = r.socket()
    client.connect_ex(listening.getsockname())
    r.wait(client, "write")
    r.wait(listening, "read")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, SO_LINGER_0)
    client.close()
    server = accepted(r, listening)
    r.wait(server, "error")
    r.ready("accepted", server)
    r.call("receive", server.recv, 10)
    r.call("peer", server.getpeername)


def unix_accept_queue_is_full(r: Record) -> None:
    listening = r.socket(socket.AF_UNIX)
    listening.bind("\0loopcore-test-full")
    listening.listen(1)
    clients = [r.socket(socket.AF_UNIX) for _ in range(4)]
    for client in clients:
        r.call("connect", client.connect, "\0loopcore-test-full")
    r.ready("full", listening, *clients)
    accepted(r, listening)
    r.call("connect", clients[2].connect, "\0loopcore-test-full")
    r.call("connect", clients[2].connect, "\0loopcore-test-full")
    r.call("connect without an answer", clients[3].connect_ex, "\0loopcore-test-full")


def accept_queue_is_full(r: Record) -> None:
    listening = listener(r, backlog=0)
    first, second = r.socket(), r.socket()
    first.connect_ex(listening.getsockname())
    r.wait(first, "write")
    second.connect_ex(listening.getsockname())  # its SYN is dropped, and sent again after a second
    r.ready("full", listening, first, second)
    r.call("connect", second.connect, listening.getsockname())
    r.call("send", second.send, b"x")
    r.call("receive", second.recv, 1)
    r.call("peer", second.getpeername)
    r.see("error", second.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    accepted(r, listening)
    r.wait(second, "write")
    r.ready("accepted", listening, second)


def connecting_socket_is_shut_down(r: Record) -> None:
    listening = listener(r, backlog=0)
    first, second = r.socket(), r.socket()
    first.connect_ex(listening.getsockname())
    r.wait(first, "write")
    second.connect_ex(listening.getsockname())
    r.call("shutdown", second.shutdown, socket.SHUT_RDWR)
    r.ready("shut", second)
    r.call("receive", second.recv, 1)
    r.call("send", second.send, b"x")


# --- addresses --------------------------------------------------------------------------------------


def address_is_in_use(r: Record) -> None:
    one, other = r.socket(), r.socket()
    r.call("bind", one.bind, ("127.0.0.1", 0))
    address = one.getsockname()
    r.call("bind again", one.bind, ("127.0.0.1", 0))
    r.call("the same address", other.bind, address)
    r.call("all addresses", other.bind, ("0.0.0.0", address[1]))
    r.see("still unbound", other.getsockname())
    one.listen()
    r.call("while it listens", other.bind, address)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    r.call("reuse while it listens", other.bind, address)
    one.close()
    r.call("afterwards", other.bind, address)
    r.call("listen", other.listen)


def address_is_reused_before_it_listens(r: Record) -> None:
    one, other = r.socket(), r.socket()
    for each in (one, other):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    r.call("bind", other.bind, one.getsockname())
    r.call("listen", one.listen)
    r.call("listen too", other.listen)


def port_is_shared(r: Record) -> None:
    one, other, third = r.socket(), r.socket(), r.socket()
    for each in (one, other):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.1", 0))
    r.call("bind", other.bind, one.getsockname())
    r.call("without the option", third.bind, one.getsockname())
    r.call("listen", one.listen)
    r.call("listen too", other.listen)


def bind_goes_wrong(r: Record) -> None:
    sock = r.socket()
    r.call("foreign address", sock.bind, ("192.0.2.1", 0))
    r.call("port too large", sock.bind, ("127.0.0.1", 70_000))
    r.call("no tuple", sock.bind, "127.0.0.1")
    r.call("one element", sock.bind, ("127.0.0.1",))
    r.call("text for a port", sock.bind, ("127.0.0.1", "80"))
    r.call("empty", sock.bind, ("", 0))
    r.see("any", sock.getsockname())


def connected_socket_is_bound_already(r: Record) -> None:
    client, _ = tcp_pair(r)
    r.call("bind", client.bind, ("127.0.0.1", 0))
    r.call("listen", client.listen)
    r.call("accept", client.accept)


def client_binds_first(r: Record) -> None:
    listening = listener(r)
    client = r.socket()
    client.bind(("127.0.0.1", 0))
    address = client.getsockname()
    client.connect_ex(listening.getsockname())
    accepted(r, listening)
    r.see("same", client.getsockname() == address)
    second = r.socket()
    second.bind(("0.0.0.0", 0))
    r.see("any", second.getsockname())
    second.connect_ex(listening.getsockname())
    r.see("chosen", second.getsockname())


def ip_version_6(r: Record) -> None:
    listening = listener(r, family=socket.AF_INET6)
    r.see("listening", listening.getsockname())
    client = r.socket(socket.AF_INET6)
    r.see("unbound", client.getsockname())
    r.call("connect", client.connect_ex, listening.getsockname())
    server = accepted(r, listening)
    r.see("server", server.getsockname() == client.getpeername())
    r.see("client", client.getsockname() == server.getpeername())
    r.see("names", [client.getpeername(), client.getsockname()])
    r.call("two elements", r.socket(socket.AF_INET6).connect_ex, listening.getsockname()[:2])


def both_ip_versions(r: Record) -> None:
    listening = r.socket(socket.AF_INET6)
    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listening.bind(("::", 0))
    listening.listen()
    r.see("listening", listening.getsockname())
    r.call("bind of 4", r.socket().bind, ("127.0.0.1", listening.getsockname()[1]))
    client = r.socket()
    client.connect_ex(("127.0.0.1", listening.getsockname()[1]))
    server = accepted(r, listening)
    r.see("names", [server.getsockname(), server.getpeername(), client.getpeername()])


def only_ip_version_6(r: Record) -> None:
    listening = r.socket(socket.AF_INET6)
    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listening.bind(("::", 0))
    listening.listen()
    client = r.socket()
    client.connect_ex(("127.0.0.1", listening.getsockname()[1]))
    r.wait(client, "error")
    r.see("error", client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def abstract_names(r: Record) -> None:
    name = "\0loopcore-test-name"
    listening = r.socket(socket.AF_UNIX)
    r.call("nobody", r.socket(socket.AF_UNIX).connect, name)
    r.call("bind", listening.bind, name)
    r.see("name", listening.getsockname())
    r.call("bind again", listening.bind, name + "2")
    r.call("taken", r.socket(socket.AF_UNIX).bind, name)
    client = r.socket(socket.AF_UNIX)
    r.call("not listening", client.connect, name)
    listening.listen()
    r.call("connect", client.connect, name)
    r.see("client", [client.getsockname(), client.getpeername()])
    server, address = listening.accept()
    r.keep(server)
    r.see("server", [server.getsockname(), server.getpeername(), address])
    r.call("datagrams", r.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect, name)
    listening.close()
    r.call("freed", r.socket(socket.AF_UNIX).bind, name)
    r.call("too long", r.socket(socket.AF_UNIX).bind, "\0" + "x" * 200)
    r.call("bytes", r.socket(socket.AF_UNIX).bind, b"\0loopcore-test-bytes")
    r.call("tuple", r.socket(socket.AF_UNIX).bind, ("x", 1))


def names_in_the_file_system(r: Record) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/name"
        r.call("nothing there", r.socket(socket.AF_UNIX).connect, path)
        r.call("no folder", r.socket(socket.AF_UNIX).bind, f"{folder}/none/name")
        listening = r.socket(socket.AF_UNIX)
        r.call("bind", listening.bind, path)
        r.see("kind", stat.S_ISSOCK(os.stat(path).st_mode))
        r.call("not listening", r.socket(socket.AF_UNIX).connect, path)
        listening.listen()
        r.call("connect", r.socket(socket.AF_UNIX).connect, path)
        r.call("taken", r.socket(socket.AF_UNIX).bind, path)
        r.call("datagrams", r.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect, path)
        listening.close()
        r.see("still there", os.path.exists(path))
        r.call("refused", r.socket(socket.AF_UNIX).connect, path)
        r.call("still taken", r.socket(socket.AF_UNIX).bind, path)
        os.unlink(path)
        r.call("gone", r.socket(socket.AF_UNIX).connect, path)
        second = r.socket(socket.AF_UNIX)
        r.call("bind again", second.bind, path)
        second.listen()
        os.unlink(path)
        r.call("unlinked while it listens", r.socket(socket.AF_UNIX).connect, path)
        third = r.socket(socket.AF_UNIX)
        r.call("the name is free", third.bind, path)
        third.listen()
        second.close()
        r.call("the new one", r.socket(socket.AF_UNIX).connect, path)
        with open(f"{folder}/file", "w", encoding="ascii"):
            pass
        r.call("a file", r.socket(socket.AF_UNIX).connect, f"{folder}/file")
        r.call("a file is there", r.socket(socket.AF_UNIX).bind, f"{folder}/file")


def nameless_name(r: Record) -> None:
    sock = r.socket(socket.AF_UNIX)
    r.call("empty", sock.bind, "")  # Linux chooses an abstract name
    name = sock.getsockname()
    r.see("abstract", [name[:1] == b"\0", type(name).__name__, len(name)])
    r.call("listen", sock.listen)
    client = r.socket(socket.AF_UNIX)
    r.call("connect", client.connect, name)


def named_client(r: Record) -> None:
    listening = r.socket(socket.AF_UNIX)
    listening.bind("\0loopcore-test-server")
    listening.listen()
    client = r.socket(socket.AF_UNIX)
    client.bind("\0loopcore-test-client")
    client.connect("\0loopcore-test-server")
    server, address = listening.accept()
    r.keep(server)
    r.see("address", address)
    r.see("names", [client.getsockname(), client.getpeername(), server.getsockname(), server.getpeername()])


# --- the stream -------------------------------------------------------------------------------------


def bytes_arrive(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        r.ready("idle", one, other)
        r.call("nothing", other.recv, 10)
        r.call("nothing into", other.recv_into, bytearray(4))
        r.call("send", one.send, b"hello ")
        r.call("send all", one.sendall, b"world")
        r.call("send message", one.sendmsg, [b"!", b"", b"?"])
        r.call("send nothing", one.send, b"")
        r.wait(other, "read")
        r.ready("arrived", one, other)
        r.call("peek", other.recv, 5, socket.MSG_PEEK)
        r.call("zero", other.recv, 0)
        r.call("receive", other.recv, 5)
        buffer = bytearray(3)
        r.call("into", other.recv_into, buffer)
        r.see("buffer", bytes(buffer))
        r.call("from", other.recvfrom, 2)
        r.call("message", other.recvmsg, 1)
        r.call("from into", other.recvfrom_into, buffer, 2)
        r.call("message into", other.recvmsg_into, [buffer])
        r.see("buffer", bytes(buffer))
        r.call("do not wait", other.recv, 1, socket.MSG_DONTWAIT)
        r.call("negative", other.recv, -1)
        r.call("text", one.send, "text")
        r.call("to", one.sendto, b"x", ("127.0.0.1", 1) if one.family == socket.AF_INET else "\0nobody")
        r.ready("at last", one, other)

    both_pairs(r, program)


def end_of_the_stream(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        one.send(b"last")
        one.close()
        r.wait(other, "read")
        r.call("peek", other.recv, 10, socket.MSG_PEEK)
        r.call("receive", other.recv, 10)
        r.wait(other, "read")
        r.ready("ended", other)
        r.call("end", other.recv, 10)
        r.call("end again", other.recv, 10)
        r.call("end into", other.recv_into, bytearray(4))
        r.call("peer", other.getpeername)

    both_pairs(r, program)


def write_after_the_peers_close(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        one.close()
        r.wait(other, "read")
        r.ready("closed", other)
        r.call("send", other.send, b"x")
        r.wait(other, "hangup")
        r.ready("sent", other)
        r.call("send again", other.send, b"x")
        r.call("receive", other.recv, 1)
        r.ready("known", other)
        r.see("error", other.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        r.call("shutdown", other.shutdown, socket.SHUT_WR)
        r.call("peer", other.getpeername)

    both_pairs(r, program)


def close_with_unread_data(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        other.send(b"never read")
        r.wait(one, "read")
        one.close()
        r.wait(other, "error")
        r.ready("reset", other)
        r.call("receive", other.recv, 10)
        r.ready("reported", other)
        r.call("receive again", other.recv, 10)
        r.call("send", other.send, b"x")
        r.call("peer", other.getpeername)
        r.call("shutdown", other.shutdown, socket.SHUT_RDWR)

    both_pairs(r, program)


def reset_with_data_that_arrived_before(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        other.send(b"never read")
        r.wait(one, "read")
        one.send(b"before the reset")
        one.close()
        r.wait(other, "error")
        r.call("receive", other.recv, 100)
        r.call("receive again", other.recv, 100)
        r.call("and again", other.recv, 100)

    both_pairs(r, program)


def linger_0(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        r.call("set", one.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, SO_LINGER_0)
        r.see("linger", one.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        one.send(b"sent")
        r.wait(other, "read")
        one.close()
        r.wait(other, "hangup")
        r.ready("reset", other)
        r.call("send", other.send, b"x")
        r.call("receive", other.recv, 10)
        r.call("receive again", other.recv, 10)

    both_pairs(r, program)


def half_close(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        r.call("shutdown", one.shutdown, socket.SHUT_WR)
        r.wait(other, "read")
        r.ready("half", one, other)
        r.call("send", one.send, b"x")
        r.call("send nothing", one.send, b"")
        r.call("end", other.recv, 1)
        r.call("answer", other.send, b"answer")
        r.wait(one, "read")
        r.call("receive", one.recv, 10)
        r.call("shutdown again", one.shutdown, socket.SHUT_WR)
        r.call("the other", other.shutdown, socket.SHUT_WR)
        r.wait(one, "hangup")
        r.ready("both", one, other)
        r.call("receive", one.recv, 10)
        r.call("shutdown when all is over", one.shutdown, socket.SHUT_WR)
        r.call("shutdown when all is over", other.shutdown, socket.SHUT_RDWR)
        r.call("peer", one.getpeername)

    both_pairs(r, program)


def shutdown_of_reading(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        r.call("shutdown", one.shutdown, socket.SHUT_RD)
        r.ready("deaf", one, other)
        r.call("receive", one.recv, 10)
        r.call("send", one.send, b"x")
        r.wait(other, "read")
        r.call("receive", other.recv, 10)
        r.call("send to it", other.send, b"y")
        if one.family == socket.AF_INET:
            r.wait(one, "read")
            r.call("receive what came", one.recv, 10)
        r.ready("at last", one, other)

    both_pairs(r, program)


def shutdown_of_both(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        other.send(b"unread")
        r.wait(one, "read")
        r.call("shutdown", one.shutdown, socket.SHUT_RDWR)
        r.wait(other, "read")
        r.ready("shut", one, other)
        r.call("receive", one.recv, 10)
        r.call("receive", one.recv, 10)
        r.call("send", one.send, b"x")
        r.call("other receives", other.recv, 10)
        r.call("wrong", one.shutdown, 7)

    both_pairs(r, program)


def write_until_it_would_block(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        total = fill(one)
        r.see("took much", total > 50_000)
        r.wait(other, "read")
        r.ready("full", one, other)
        r.call("send", one.send, b"x")
        r.call("send nothing", one.send, b"")
        got = 0
        while got < total:
            r.wait(other, "read")
            got += len(other.recv(1 << 20))
        r.see("all came", got == total)
        r.wait(one, "write")
        r.ready("drained", one, other)

    both_pairs(r, program)


def close_while_the_peer_is_full(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        total = fill(one)
        one.close()
        got = 0
        while got < total:
            r.wait(other, "read")
            got += len(other.recv(1 << 20))
        r.see("all came", got == total)
        r.wait(other, "read")
        r.call("end", other.recv, 10)

    both_pairs(r, program)


def reader_closes_while_the_writer_is_full(r: Record) -> None:
    def program(r: Record, one: Any, other: Any) -> None:
        fill(one)
        r.wait(other, "read")
        other.close()
        r.wait(one, "hangup")
        r.ready("closed", one)
        r.call("send", one.send, b"x")
        r.call("send again", one.send, b"x")

    both_pairs(r, program)


def connection_to_itself_by_pipes(r: Record) -> None:
    one, other = unix_pair(r)
    r.call("read of os", os.write, one.fileno(), b"by number")
    r.call("write of os", os.read, other.fileno(), 100)
    r.call("nothing", os.read, other.fileno(), 100)
    r.call("vector", os.writev, one.fileno(), [b"a", b"b", b""])
    buffers = [bytearray(1), bytearray(5)]
    r.call("vector", os.readv, other.fileno(), buffers)
    r.see("buffers", [bytes(each) for each in buffers])
    r.call("seek", os.lseek, one.fileno(), 0, 0)
    one.close()
    r.call("end", os.read, other.fileno(), 100)
    r.call("broken", os.write, other.fileno(), b"x")


# --- options ----------------------------------------------------------------------------------------


def options(r: Record) -> None:
    for family in (socket.AF_INET, socket.AF_UNIX):
        sock = r.socket(family)
        get, put = sock.getsockopt, sock.setsockopt
        r.see("type", get(socket.SOL_SOCKET, socket.SO_TYPE))
        r.see("domain", get(socket.SOL_SOCKET, socket.SO_DOMAIN) == int(family))
        r.see("accepts", get(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        r.see("error", get(socket.SOL_SOCKET, socket.SO_ERROR))
        r.see("reuse", get(socket.SOL_SOCKET, socket.SO_REUSEADDR))
        put(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        r.see("reuse", get(socket.SOL_SOCKET, socket.SO_REUSEADDR))
        r.see("as bytes", get(socket.SOL_SOCKET, socket.SO_REUSEADDR, 4))
        r.see("linger", get(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        r.see("linger as a number", get(socket.SOL_SOCKET, socket.SO_LINGER))
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            put(socket.SOL_SOCKET, option, 20_000)
            r.see("doubled", get(socket.SOL_SOCKET, option))
            put(socket.SOL_SOCKET, option, 1)
            r.see("least", get(socket.SOL_SOCKET, option))
        r.call("unknown", get, socket.SOL_SOCKET, 9999)
        r.call("read only", put, socket.SOL_SOCKET, socket.SO_TYPE, 1)
        r.call("keep alive", put, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        r.see("keep alive", get(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        r.call("bytes", put, socket.SOL_SOCKET, socket.SO_KEEPALIVE, struct.pack("i", 0))
        r.see("keep alive", get(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        r.call("no delay", put, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        r.call("no delay", get, socket.IPPROTO_TCP, socket.TCP_NODELAY)
        r.call("too few arguments", put, socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def options_are_inherited(r: Record) -> None:
    listening = r.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    client = r.socket()
    client.connect_ex(listening.getsockname())
    server = accepted(r, listening)
    r.see("keep alive", server.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    r.see("buffer", server.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    r.see("accepts", server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
