"""Programs over pipes and descriptors, for test_like_linux.py."""

import os
import stat

from tests.backends.sim.recording import Record

PIPE_BUF = 4096


class _Descriptor:
    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        try:
            os.close(self.fd)
        except OSError:
            pass  # the program has closed it


def _pipe(r: Record, *, blocking: bool = False) -> tuple[int, int]:
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, blocking)
        r.keep(_Descriptor(fd))
    return reader, writer


def _fill(fd: int, piece: int = 65_536) -> int:
    total = 0
    try:
        while True:
            total += os.write(fd, bytes(piece))
    except BlockingIOError:
        return total


def bytes_go_through(r: Record) -> None:
    reader, writer = _pipe(r)
    r.ready("new", reader, writer)
    r.call("nothing", os.read, reader, 10)
    r.call("zero", os.read, reader, 0)
    r.call("write", os.write, writer, b"hello world")
    r.ready("written", reader, writer)
    r.call("read", os.read, reader, 5)
    r.call("read the rest", os.read, reader, 100)
    r.call("write nothing", os.write, writer, b"")
    r.ready("at last", reader, writer)
    r.call("write to the reader", os.write, reader, b"x")
    r.call("read from the writer", os.read, writer, 1)


def end_of_a_pipe(r: Record) -> None:
    reader, writer = _pipe(r)
    os.write(writer, b"last")
    os.close(writer)
    r.ready("closed", reader)
    r.call("read", os.read, reader, 100)
    r.ready("read", reader)
    r.call("end", os.read, reader, 100)
    r.call("end again", os.read, reader, 100)


def broken_pipe(r: Record) -> None:
    reader, writer = _pipe(r)
    os.write(writer, b"unread")
    os.close(reader)
    r.ready("broken", writer)
    r.call("write", os.write, writer, b"x")
    r.call("write nothing", os.write, writer, b"")
    r.ready("still", writer)


def broken_pipe_that_was_full(r: Record) -> None:
    reader, writer = _pipe(r)
    _fill(writer)
    os.close(reader)
    r.ready("broken", writer)
    r.call("write", os.write, writer, b"x")


def pipe_is_full(r: Record) -> None:
    reader, writer = _pipe(r)
    r.see("capacity", _fill(writer))
    r.ready("full", reader, writer)
    r.call("write", os.write, writer, b"x")
    os.read(reader, 1)
    r.call("write after a byte was read", os.write, writer, b"x")
    r.ready("after a byte", writer)
    os.read(reader, PIPE_BUF)
    r.ready("after a page", writer)
    r.call("write more than fits", os.write, writer, bytes(2 * PIPE_BUF))
    r.ready("full again", writer)


def small_writes_are_atomic(r: Record) -> None:
    reader, writer = _pipe(r)
    _fill(writer)
    os.read(reader, 2 * PIPE_BUF)
    r.call("page", os.write, writer, bytes(PIPE_BUF))
    r.call("some", os.write, writer, bytes(100))
    r.call("page that does not fit", os.write, writer, bytes(PIPE_BUF))
    r.call("rest", os.write, writer, bytes(PIPE_BUF + 1))


def large_write_is_partial(r: Record) -> None:
    reader, writer = _pipe(r)
    r.call("write", os.write, writer, bytes(100_000))
    r.call("read", os.read, reader, 100_000)
    r.ready("read", reader, writer)


def vectors(r: Record) -> None:
    reader, writer = _pipe(r)
    r.call("write", os.writev, writer, [b"one", bytearray(b"two"), b"", memoryview(b"three")])
    buffers = [bytearray(2), bytearray(0), bytearray(4), bytearray(100)]
    r.call("read", os.readv, reader, buffers)
    r.see("buffers", [bytes(each[:5]) for each in buffers])
    r.call("nothing", os.readv, reader, buffers)


def kinds(r: Record) -> None:
    reader, writer = _pipe(r)
    for fd in (reader, writer):
        mode = os.fstat(fd).st_mode
        r.see("kind", [stat.S_ISFIFO(mode), stat.S_ISSOCK(mode), stat.S_ISREG(mode), stat.S_ISCHR(mode)])
        r.see("terminal", os.isatty(fd))
        r.call("seek", os.lseek, fd, 0, os.SEEK_CUR)
        r.call("truncate", os.ftruncate, fd, 0)
        r.call("synchronize", os.fsync, fd)
    sock = r.socket()
    mode = os.fstat(sock.fileno()).st_mode
    r.see("kind of a socket", [stat.S_ISFIFO(mode), stat.S_ISSOCK(mode), stat.S_ISREG(mode), stat.S_ISCHR(mode)])
    r.see("by stat", stat.S_ISSOCK(os.stat(sock.fileno()).st_mode))
    r.see("terminal", os.isatty(sock.fileno()))


def flags(r: Record) -> None:
    reader, writer = os.pipe()
    for fd in (reader, writer):
        r.keep(_Descriptor(fd))
        r.see("blocking", os.get_blocking(fd))
        r.see("inheritable", os.get_inheritable(fd))
    os.set_blocking(reader, False)
    r.see("set", [os.get_blocking(reader), os.get_blocking(writer)])
    copy = os.dup(reader)
    r.keep(_Descriptor(copy))
    r.see("copy", [os.get_blocking(copy), os.get_inheritable(copy)])
    os.set_blocking(copy, True)
    r.see("shared", os.get_blocking(reader))
    os.set_inheritable(copy, True)
    r.see("not shared", [os.get_inheritable(reader), os.get_inheritable(copy)])
    pair = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for fd in pair:
        r.keep(_Descriptor(fd))
    r.see("second form", [[os.get_blocking(fd), os.get_inheritable(fd)] for fd in pair])
    pair = os.pipe2(0)
    for fd in pair:
        r.keep(_Descriptor(fd))
    r.see("without flags", [[os.get_blocking(fd), os.get_inheritable(fd)] for fd in pair])


def numbers_are_reused(r: Record) -> None:
    reader, writer = _pipe(r)
    other = r.socket()
    third = r.socket()
    os.close(writer)
    other_fd, third_fd = other.fileno(), third.fileno()
    other.close()
    again = os.dup(reader)
    r.keep(_Descriptor(again))
    r.see("lowest", again == writer)
    sock = r.socket()
    r.see("next", sock.fileno() == other_fd)
    third.close()
    pair = _pipe(r)
    r.see("third", third_fd in pair)


def copies_of_a_descriptor(r: Record) -> None:
    reader, writer = _pipe(r)
    copy = os.dup(writer)
    r.keep(_Descriptor(copy))
    os.close(writer)
    r.ready("a copy is open", reader)
    r.call("write to the copy", os.write, copy, b"x")
    r.call("write to the closed one", os.write, writer, b"x")
    r.call("read", os.read, reader, 10)
    os.close(copy)
    r.ready("closed", reader)


def descriptor_takes_a_number(r: Record) -> None:
    reader, writer = _pipe(r)
    other_reader, other_writer = _pipe(r)
    r.see("returns the number", os.dup2(other_writer, writer) == writer)
    r.ready("the first pipe has no writer", reader)
    r.call("write", os.write, writer, b"elsewhere")
    r.call("read", os.read, other_reader, 20)
    r.see("inheritable", os.get_inheritable(writer))
    os.dup2(other_writer, writer, inheritable=False)
    r.see("not inheritable", os.get_inheritable(writer))
    r.see("itself", os.dup2(writer, writer) == writer)
    os.close(other_writer)
    os.close(writer)
    r.ready("all closed", other_reader)
    r.call("from a closed one", os.dup2, writer, reader)


def closed_descriptors(r: Record) -> None:
    reader, writer = _pipe(r)
    os.close(reader)
    r.call("close", os.close, reader)
    r.call("read", os.read, reader, 1)
    r.call("write", os.write, reader, b"x")
    r.call("stat", os.fstat, reader)
    r.call("dup", os.dup, reader)
    r.call("blocking", os.get_blocking, reader)
    r.call("set blocking", os.set_blocking, reader, True)
    r.call("inheritable", os.get_inheritable, reader)
    r.call("terminal", os.isatty, reader)
    r.call("seek", os.lseek, reader, 0, 0)
    r.call("negative", os.read, writer, -1)
    r.call("text", os.write, writer, "text")


def files_over_pipes(r: Record) -> None:
    reader, writer = _pipe(r, blocking=True)
    with open(writer, "wb", buffering=0, closefd=False) as out, open(reader, "rb", buffering=0, closefd=False) as into:
        r.call("write", out.write, b"by a file")
        r.call("read", into.read, 20)
        r.see("seekable", [out.seekable(), into.seekable(), out.writable(), into.readable()])
    with os.fdopen(os.dup(writer), "wb") as out, os.fdopen(os.dup(reader), "rb") as buffered:
        out.write(b"line\nrest")
        out.flush()
        r.call("line", buffered.readline)
    with open(reader, "rb", buffering=0, closefd=False) as into:
        os.close(writer)
        r.call("end", into.read, 20)


def files_that_would_block(r: Record) -> None:
    reader, writer = _pipe(r)
    with open(reader, "rb", buffering=0, closefd=False) as into:
        r.call("nothing", into.read, 20)
    _fill(writer)
    with open(writer, "wb", buffering=0, closefd=False) as out:
        r.call("full", out.write, b"x")
