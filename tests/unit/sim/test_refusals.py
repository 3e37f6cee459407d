import _socket
import mmap
import multiprocessing
import os
import platform
import select
import selectors
import socket
import ssl
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from loopcore.errors import LoopcoreError
from loopcore.sim.errors import NotSimulatedError
from loopcore_backends.sim.refusals import replacements
from loopcore_backends.sim.replacing import installed

unix = pytest.mark.skipif(sys.platform == "win32", reason="not on Windows")


def popen() -> None:
    subprocess.run(["true"], check=False)


def start() -> None:
    multiprocessing.get_context("spawn").Process(target=int).start()


def wrap() -> None:
    ssl.create_default_context().wrap_socket(None)  # type: ignore[arg-type]


CALLS: dict[str, Any] = {
    "subprocess.Popen('true')": popen,
    "multiprocessing.Process.start()": start,
    "SSLContext.wrap_socket()": wrap,
    "socket.__new__": socket.socket,
    "os.system()": lambda: os.system("true"),
    "os.execv()": lambda: os.execv("/bin/true", ["true"]),
    "os.fork()": lambda: os.fork(),
    "os.posix_spawn()": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "os.eventfd()": lambda: os.eventfd(0),
    "os.login_tty()": lambda: os.login_tty(0),
    "os.memfd_create()": lambda: os.memfd_create("name"),
    "os.openpty()": lambda: os.openpty(),
    "os.pidfd_open()": lambda: os.pidfd_open(os.getpid()),
    "os.timerfd_create()": lambda: os.timerfd_create(0),
    "_socket.socketpair()": lambda: _socket.socketpair(),
    "select.epoll()": lambda: select.epoll(),
    "os.kill": lambda: os.kill(os.getpid(), 0),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 80),
    "socket.gethostbyname": lambda: socket.gethostbyname("localhost"),
    "mmap.mmap() of a simulated file": lambda: mmap.mmap(1_000_000, 1),
}


@unix
@pytest.mark.parametrize("what", CALLS)
def test_the_call_is_refused_with_its_place(world: Any, what: str) -> None:
    if "epoll" in what and not hasattr(select, "epoll"):
        pytest.skip("Linux has epoll")
    if what.startswith("os.") and not hasattr(os, what.partition(".")[2].removesuffix("()")):
        pytest.skip(f"{what} is of another system or a later Python")
    call = CALLS[what]
    with installed(replacements(world)), pytest.raises(NotSimulatedError) as refused:
        call()
    text = str(refused.value)
    assert text.startswith(f"{what} is not simulated (called at ")
    line = int(text.partition(f"{__file__}:")[2].partition(")")[0])
    assert line >= (call.__code__.co_firstlineno if call is not socket.socket else 1)
    assert isinstance(refused.value, (LoopcoreError, RuntimeError))


@unix
def test_a_real_function_kept_by_the_program_is_caught(world: Any) -> None:
    class Kept:
        calls = [os.system, os.fork, os.posix_spawn]

    arguments: list[tuple[Any, ...]] = [("true",), (), ("/bin/true", ["true"], {})]
    with installed(replacements(world)):
        for function, given in zip(Kept.calls, arguments, strict=True):
            with pytest.raises(NotSimulatedError, match="run the child's program as another host"):
                function(*given)


def test_selectors_are_refused(world: Any) -> None:
    with installed(replacements(world)), pytest.raises(NotSimulatedError, match=r"select\.\w+\(\) is not simulated"):
        selectors.DefaultSelector()
    selectors.DefaultSelector().close()


def test_platform_names_the_machine_without_a_process(world: Any) -> None:
    platform._uname_cache = None  # type: ignore[attr-defined]
    with installed(replacements(world)):
        assert platform.platform()
        assert platform.processor() == platform.uname().processor


def test_other_threads_are_let_alone(world: Any) -> None:
    made: list[socket.socket] = []
    with installed(replacements(world)):
        thread = threading.Thread(target=lambda: made.append(socket.socket()))
        thread.start()
        thread.join()
    made[0].close()


@unix
def test_nothing_is_refused_afterwards(world: Any) -> None:
    with installed(replacements(world)):
        pass
    assert subprocess.run(["true"], check=False).returncode == 0
    socket.socket().close()


def test_a_library_with_sockets_in_c_is_refused(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("psycopg2")
    exec("def _connect(dsn): raise AssertionError", vars(library))
    monkeypatch.setitem(sys.modules, "psycopg2", library)
    with installed(replacements(world)), pytest.raises(NotSimulatedError, match=r"psycopg2\._connect \(sockets of a C"):
        library._connect("")
