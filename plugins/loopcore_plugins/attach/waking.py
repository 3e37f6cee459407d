"""Waking: how a process that waits gets to execute Python, with the least disturbance.

A script of `sys.remote_exec` runs when the main thread next executes bytecode or checks for signals. In an idle
loop it does neither: it waits in epoll_wait(2). Two ways lead out:

- ptrace(2): PTRACE_SEIZE, PTRACE_INTERRUPT and PTRACE_DETACH of the main thread. It stops for a fraction of a
  millisecond, epoll_wait returns EINTR, and Python's wrapper checks for signals, runs the script and waits again. The
  loop notices nothing. SIGSTOP and SIGCONT would have the same effect, but stop all threads and notify the parent.
  It needs the rights that `sys.remote_exec` needs. This is the way for asyncio and loopcore.
- libuv repeats the wait without asking Python. For uvloop a zero byte goes into the socket pair through which Python
  reports signals (signal.set_wakeup_fd). uvloop checks for signals then, and ignores zero bytes.

Other system calls (a lock, time.sleep, a read) are restarted by the kernel, and are left alone.
"""

import ctypes
import os
import socket
import struct
from typing import Any, Final

from loopcore_plugins.attach.process import Process

_SEIZE: Final = 0x4206
_INTERRUPT: Final = 0x4207
_DETACH: Final = 17
_EVENT_STOP: Final = 128
_ALL: Final = 0x40000000
"""__WALL: also wait for threads."""
_PIDFD_GETFD: Final = 438

# sock_diag(7): struct unix_diag_req and unix_diag_msg
_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DUMP: Final = 0x301
_SHOW_PEER: Final = 4
_PEER: Final = 2
_ANY: Final = 0xFFFFFFFF


def wake(process: Process) -> None:
    """Get the main thread, which waits in a loop, to run a script. Raises OSError."""
    if not _write_wakeup(process):
        _interrupt(process.pid)


def _interrupt(thread_id: int) -> None:
    """Make the system call of a thread return, if it is one that does so without a signal handler. Raises OSError."""
    _ptrace(_SEIZE, thread_id)
    _ptrace(_INTERRUPT, thread_id)
    _, status = os.waitpid(thread_id, _ALL)
    if os.WIFSTOPPED(status):
        # If a signal came first, the thread stopped for that, and still has to get it.
        _ptrace(_DETACH, thread_id, 0 if status >> 16 == _EVENT_STOP else os.WSTOPSIG(status))


def _write_wakeup(process: Process) -> bool:
    """Write a zero byte to the socket pair of uvloop in the main thread; return False if it cannot be identified.

    It is the one pair that has one end in the table of the epoll instance on which the main thread waits, and the other
    end elsewhere in the process. Raises OSError.
    """
    if not process.maps("/uvloop/loop"):
        return False
    _, epoll = process.system_call(process.pid)
    table = (process.root / f"fdinfo/{epoll}").read_text().splitlines()
    watched = {_inode(process, line.split()[1]) for line in table if line.startswith("tfd:")}
    held = {_inode(process, number): int(number) for number in os.listdir(process.root / "fd")}
    peers = {peer for inode, peer in _peers().items() if inode in watched}
    pairs = [held[peer] for peer in peers if peer in held and peer not in watched]
    if len(pairs) != 1:
        return False
    handle = os.pidfd_open(process.pid)
    try:
        with socket.socket(fileno=_checked(_libc().syscall(_PIDFD_GETFD, handle, pairs[0], 0))) as end:
            end.send(b"\0", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    finally:
        os.close(handle)
    return True


def _inode(process: Process, number: str) -> int:
    """Return the inode of a socket, 0 for another descriptor."""
    target = os.readlink(process.root / f"fd/{number}")
    return int(target[8:-1]) if target.startswith("socket:[") else 0


def _peers() -> dict[int, int]:
    """Return the inodes of connected Unix sockets of this network namespace, each with that of its peer."""
    found: dict[int, int] = {}
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, _ANY, 0, _SHOW_PEER, _ANY, _ANY)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            received = netlink.recv(1 << 16)
            while received:
                length, kind = struct.unpack_from("=IH", received)
                if kind != _BY_FAMILY:
                    return found
                (inode,) = struct.unpack_from("=I", received, 20)
                at = 32
                while at < length:
                    size, attribute = struct.unpack_from("=HH", received, at)
                    if attribute == _PEER:
                        (found[inode],) = struct.unpack_from("=I", received, at + 4)
                    at += (size + 3) & ~3
                received = received[(length + 3) & ~3 :]


def _ptrace(request: int, thread_id: int, argument: int = 0) -> None:
    _checked(_libc().ptrace(request, thread_id, None, ctypes.c_void_p(argument)))


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return libc


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
