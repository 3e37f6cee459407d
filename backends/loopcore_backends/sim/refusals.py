"""Refuses what is not simulated, so that a program never reaches the real thing unnoticed.

Python's functions for processes, C sockets and multiplexing raise NotSimulatedError. Below them an audit hook (PEP 578)
refuses the same and more where a program reaches the C functions by another way. A C library that makes system
calls itself is out of reach of both: those of `_OWN_SOCKETS` are refused, others reach the real network.
"""

import os
import select
import selectors
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import reduce
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn

import loopcore.errors
from loopcore.sim.errors import NotSimulatedError
from loopcore_backends.sim.descriptors import FIRST
from loopcore_backends.sim.replacing import SIMULATED_THREADS, Replacement

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_PROCESS: Final = "run the child's program as another host of the simulation, or replace the call in the test"
_SOCKET: Final = "use the module socket, or asyncio's transports and streams"
_LIBRARY: Final = "use a client that is written on asyncio or on the module socket, or replace it in the test"
_TLS: Final = "use TLS of asyncio's transports (ssl=...), or ssl.MemoryBIO"
_SELECT: Final = "use the running loop (add_reader, streams), and asyncio.new_event_loop for a loop of its own"
_SIGNAL: Final = "send signals to processes of the simulation only (os.getpid())"
_MAPPING: Final = "read and write the file instead"
_DESCRIPTOR: Final = "use socket.socketpair() or os.pipe()"
_MEMORY: Final = "use io.BytesIO, or a file of the module tempfile"
_TIMER: Final = "use the timers of the loop: call_later, asyncio.sleep()"
_NAME: Final = "use getaddrinfo of the module socket or of the loop"

_AUDITED: Final = {
    "os.exec": _PROCESS,
    "os.fork": _PROCESS,
    "os.forkpty": _PROCESS,
    "os.posix_spawn": _PROCESS,
    "os.spawn": _PROCESS,
    "os.startfile": _PROCESS,
    "os.system": _PROCESS,
    "pty.spawn": _PROCESS,
    "subprocess.Popen": _PROCESS,
    "_winapi.CreateProcess": _PROCESS,
    "os.kill": _SIGNAL,
    "os.killpg": _SIGNAL,
    "socket.__new__": _SOCKET,
    "socket.bind": _SOCKET,
    "socket.connect": _SOCKET,
    "socket.sendmsg": _SOCKET,
    "socket.sendto": _SOCKET,
    "socket.getaddrinfo": _NAME,
    "socket.gethostbyaddr": _NAME,
    "socket.gethostbyname": _NAME,
    "socket.getnameinfo": _NAME,
}

_CHANGES: Final = frozenset(
    f"os.{name}"
    for name in (
        "chmod", "chown", "link", "mkdir", "remove", "removexattr", "rename", "rmdir", "setxattr", "symlink",
        "truncate", "utime",
    )
)  # fmt: skip
"""What the real functions of files report: the simulated ones do not."""
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_COPY: Final = "call it as os.NAME() or open(): this is a copy of the real function from before the simulation"
_DATABASE: Final = "use ':memory:' in simulations: SQLite writes its files in C"

_STANDARD: Final = sysconfig.get_path("stdlib") + os.sep
_OWN_SOCKETS: Final = (
    ("MySQLdb", "connect"),
    ("grpc._cython.cygrpc", "AioChannel"),
    ("grpc._cython.cygrpc", "AioServer"),
    ("grpc._cython.cygrpc", "Channel"),
    ("grpc._cython.cygrpc", "Server"),
    ("psycopg.generators", "connect"),
    ("psycopg2", "_connect"),
    ("pycurl", "Curl"),
    ("pycurl", "CurlMulti"),
    ("pyodbc", "connect"),
    ("uvloop", "Loop"),
    ("zmq.sugar.context", "Context.__init__"),
)
"""Doors of libraries that make system calls in C, if they were imported before the simulation."""

_LOOPCORE: Final = (os.path.dirname(loopcore.errors.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
_has_hook = False


def not_simulated(what: str, instead: str) -> NotSimulatedError:
    """Return the error for a call of `what`, which says where the program made it and what to do `instead`."""
    return NotSimulatedError(f"{what} is not simulated (called at {_caller()}): {instead}")


def replacements(world: "World") -> list[Replacement]:
    """Functions that refuse. Installs the audit hook, which stays in the process and acts in simulated threads only."""
    _install_hook()

    modules = sys.modules.get
    process = getattr(modules("multiprocessing.process"), "BaseProcess", None)
    places: list[Replacement] = [
        *_OF_OS,
        (subprocess.Popen, "__init__", _refuse_popen),
        (process, "start", refusal("multiprocessing.Process.start()", _PROCESS)),
        (modules("_posixsubprocess"), "fork_exec", refusal("starting a process", _PROCESS)),
        # platform.platform() would start a process; this tells it that the program is missing.
        (getattr(modules("platform"), "_Processor", None), "from_subprocess", lambda: None),
        (modules("_socket"), "socketpair", refusal("_socket.socketpair()", _SOCKET)),
        (getattr(modules("ssl"), "SSLContext", None), "wrap_socket", refusal("SSLContext.wrap_socket()", _TLS)),
    ]
    for name in ("epoll", "kqueue", "devpoll"):
        refuse = refusal(f"select.{name}()", _SELECT)
        selector = getattr(selectors, f"{name.capitalize()}Selector", None)
        places += [(select, name, refuse), (selector, "_selector_cls", refuse)]  # the class keeps a copy
    for module, path in _OWN_SOCKETS:
        if module in sys.modules:
            *owners, name = path.split(".")
            owner = reduce(getattr, owners, sys.modules[module])
            places.append((owner, name, refusal(f"{module}.{path} (sockets of a C library)", _LIBRARY)))
    return [place for place in places if hasattr(place[0], place[1])]


def refusal(what: str, instead: str) -> Callable[..., NoReturn]:
    """Return a function that raises `not_simulated`."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise not_simulated(what, instead)

    return refuse


_OF_OS: Final = [
    (os, name, refusal(f"os.{name}()", _PROCESS))
    for name in vars(os)
    if name.startswith(("exec", "fork", "posix_spawn", "startfile", "system"))
] + [
    (os, name, refusal(f"os.{name}()", instead))
    for name, instead in (
        ("eventfd", _DESCRIPTOR),
        ("login_tty", _PROCESS),
        ("memfd_create", _MEMORY),
        ("openpty", _DESCRIPTOR),
        ("pidfd_open", _PROCESS),
        ("timerfd_create", _TIMER),
    )
]


def _refuse_popen(self: object, args: Any = (), *_: object, **__: object) -> NoReturn:
    program = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "")
    raise not_simulated(f"subprocess.Popen({os.fsdecode(program)!r})", _PROCESS)


def _install_hook() -> None:
    global _has_hook
    if not _has_hook:
        _has_hook = True
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...], simulated: set[int] = SIMULATED_THREADS) -> None:
    if not simulated:
        return  # also when Python ends, and the globals of this module are gone
    if event in _AUDITED:
        # Compiled, a transport reports what it sends before it knows whose the descriptor is.
        is_ours = event == "socket.sendto" and arguments[0].fileno() >= FIRST
        if get_ident() in SIMULATED_THREADS and not is_ours:
            raise not_simulated(event, _AUDITED[event])
    elif event == "mmap.__new__" and arguments[0] >= FIRST and get_ident() in SIMULATED_THREADS:
        raise not_simulated("mmap.mmap() of a simulated file", _MAPPING)
    elif event in _CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING):
        # The machine opens devices and hands on real descriptors; imports write their caches.
        caller = sys._getframe(1).f_code.co_filename
        if get_ident() in SIMULATED_THREADS and not caller.startswith((_LOOPCORE[1], "<frozen importlib")):
            raise not_simulated(f"{event} of {arguments[0]!r}", _COPY)
    elif event == "sqlite3.connect" and get_ident() in SIMULATED_THREADS:
        name = os.fsdecode(arguments[0])
        if name != ":memory:" and "mode=memory" not in name:
            raise not_simulated(f"sqlite3.connect({name!r})", _DATABASE)


def _caller() -> str:
    """Return "file:line" of the innermost frame that is neither the standard library's nor loopcore's."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_library(file: str) -> bool:
    if file.startswith(_LOOPCORE):
        return True
    return file.startswith(("<frozen ", _STANDARD)) and "-packages" not in file
