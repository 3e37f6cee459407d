"""Who may connect, and what becomes of the sockets."""

import asyncio
import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from loopcore import UsageError
from loopcore.cli import main
from loopcore_plugins.inspect import Inspect, places
from loopcore_plugins.inspect.client import GoneError, connect, find
from tests.plugins.inspect.processes import PATIENCE, SERVER, client_of, loopcore, running

pytestmark = pytest.mark.loopcore_only

NOBODY = 65534
"""Another user."""


def inspected(loop: Any, program: Any) -> Any:
    """Run `program()` on the loop with the plugin."""
    loop.probes.register(Inspect())
    return loop.run_until_complete(program())


def test_only_the_owner_can_get_at_a_socket(folder: Path, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = folder / "runtime" / "loopcore"
    monkeypatch.delenv("LOOPCORE_INSPECT_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(inner.parent))
    before = os.umask(0)
    try:

        async def program() -> list[int]:
            return [stat.S_IMODE(path.stat().st_mode) for path in (inner, *inner.iterdir())]

        assert inspected(loop, program) == [0o700, 0o600]
    finally:
        os.umask(before)


@pytest.mark.parametrize("chosen", [None, "", "  "])
def test_without_a_runtime_folder_the_one_for_temporary_files_is_taken(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    monkeypatch.delenv("LOOPCORE_INSPECT_DIR", raising=False)
    if chosen is not None:
        monkeypatch.setenv("LOOPCORE_INSPECT_DIR", chosen)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert places.folder().name == f"loopcore-{os.geteuid()}"


def test_without_any_folder_for_temporary_files_the_error_names_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.delenv("LOOPCORE_INSPECT_DIR", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    with pytest.raises(UsageError, match="; set LOOPCORE_INSPECT_DIR to a folder of your own, or TMPDIR"):
        places.folder()


@pytest.mark.parametrize("command", [["ps"], ["stacks", "1"], ["cancel", "1", "t"], ["top"], ["top", "1"]])
def test_without_unix_sockets_the_commands_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    assert main(command) == 2
    assert "inspect needs Unix sockets, which Python does not have on this platform" in capsys.readouterr().err


def test_what_is_no_socket_is_left_alone_whatever_its_name(folder: Path, loop: Any) -> None:
    (folder / "99999998.1.sock").mkdir()
    (folder / "99999998.2.sock").write_text("", encoding="ascii")

    async def program() -> list[str]:
        return [each.path.name for each in places.addresses()]

    folder.chmod(0o700)
    (name,) = inspected(loop, program)
    assert name.startswith(f"{os.getpid()}.")
    assert loopcore("ps").returncode == 0
    assert {"99999998.1.sock", "99999998.2.sock"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("flaw", ["open", "file", "link", "foreign", "foreign to root"])
def test_an_unsafe_folder_is_not_used(
    folder: Path, loop: Any, flaw: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = folder / "place"
    if flaw == "file":
        place.touch()
    elif flaw == "link":
        place.symlink_to(folder)
    else:
        place.mkdir(mode=0o700)
    if flaw == "open":
        place.chmod(0o770)
    if flaw == "foreign":
        owner = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: owner)
    if flaw == "foreign to root":
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(place))
    assert inspected(loop, lambda: asyncio.sleep(0, "it ran all the same")) == "it ran all the same"
    assert "cannot be inspected" in caplog.text
    if flaw != "file":
        assert list(place.glob("*.sock")) == []
        with pytest.raises(UsageError, match="place"):
            find("all")
        with pytest.raises(UsageError, match="place"):
            connect(places.Address(os.getpid(), 1, place / f"{os.getpid()}.1.sock"))


def test_no_change_of_mode_is_advised_for_a_folder_that_the_user_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)  # as /tmp
    monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(shared))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with pytest.raises(UsageError) as refused:
        find("all")
    assert str(refused.value) == (
        f"{shared} is open to other users; set LOOPCORE_INSPECT_DIR to a folder of your own, such as {folder}/loopcore"
    )


def test_the_default_folder_can_be_closed_to_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = folder / "loopcore"
    default.mkdir()
    default.chmod(0o755)
    monkeypatch.delenv("LOOPCORE_INSPECT_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with pytest.raises(UsageError, match=f"run `chmod 700 {default}`"):
        find("all")


@pytest.fixture
def without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems where a descriptor has no path."""
    monkeypatch.setattr(places, "_DESCRIPTORS", "/nonexistent")


LINUX = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors have no path here")


@LINUX
@pytest.mark.parametrize("becomes", ["a link", "another folder"])
def test_a_folder_that_is_replaced_after_it_was_checked_is_still_the_one_that_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    """Issue 32: what others may rename is not looked up twice."""
    place, moved, other = folder / "place", folder / "moved", folder / "other"
    monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(place))
    other.mkdir(mode=0o700)
    check = places.Folder._check

    def check_and_replace(self: places.Folder) -> None:
        check(self)
        if not moved.exists():
            place.rename(moved)
            if becomes == "a link":
                place.symlink_to(other)
            else:
                place.mkdir(mode=0o700)

    monkeypatch.setattr(places.Folder, "_check", check_and_replace)
    listener = places.Listener(os.getpid(), 1)
    try:
        assert [path.name for path in moved.iterdir()] == [f"{os.getpid()}.1.sock"]
        listener.remove()
        assert list(moved.iterdir()) == []
        assert list(other.iterdir()) == list(place.iterdir()) == []
    finally:
        listener.close()


@LINUX
def test_a_socket_is_closed_to_others_from_its_first_moment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 32: a mode that is set after bind(2) is set on whatever has that name by then."""
    modes = []

    class Watched(socket.socket):
        def bind(self, address: Any) -> None:
            super().bind(address)
            modes.append(stat.S_IMODE(os.stat(address).st_mode))

    monkeypatch.setattr(places.socket, "socket", Watched)
    before = os.umask(0)
    try:
        listener = places.Listener(os.getpid(), 1)
    finally:
        os.umask(before)
    listener.remove()
    listener.close()
    assert modes == [0o600]


@pytest.mark.usefixtures("without_descriptors")
def test_where_descriptors_have_no_path_sockets_are_reached_by_their_own(folder: Path, loop: Any) -> None:
    def look() -> Any:
        with connect(find("all")[0]) as client:
            return client.ask("ps")["running"]

    assert inspected(loop, lambda: asyncio.to_thread(look))
    loop.close()
    assert list(folder.iterdir()) == []


@LINUX
def test_a_long_path_is_no_obstacle(folder: Path, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(folder / ("x" * 120)))

    def look() -> Any:
        with connect(find("all")[0]) as client:
            return client.ask("ps")["running"]

    assert inspected(loop, lambda: asyncio.to_thread(look))


@pytest.mark.usefixtures("without_descriptors")
def test_a_path_that_is_too_long_is_reported_and_the_program_goes_on(
    folder: Path, loop: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(folder / ("x" * 120)))
    assert inspected(loop, lambda: asyncio.sleep(0, 1)) == 1
    assert loop.run_until_complete(asyncio.sleep(0, 2)) == 2
    assert caplog.text.count("too long") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="peers are asked on Linux only")
def test_another_user_is_turned_away(folder: Path, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> bytes:
        (address,) = find("all")
        monkeypatch.setattr(places, "_UCRED", _Foreign)  # the file's mode kept such a peer out, but for this
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(PATIENCE)
            await asyncio.to_thread(visitor.connect, str(address.path))
            return await asyncio.to_thread(visitor.recv, 1)

    assert inspected(loop, program) == b""


class _Foreign:
    size = 12

    @staticmethod
    def unpack(credentials: bytes) -> tuple[int, int, int]:
        return 1, os.geteuid() + 1, 1


def test_elsewhere_the_mode_of_the_folder_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_UCRED", _Foreign)
    monkeypatch.setattr(sys, "platform", "openbsd7")
    here, there = socket.socketpair()
    with here, there:
        assert places.may_connect(here)


@pytest.mark.skipif(sys.platform != "linux", reason="peers are asked on Linux only")
def test_root_may_look_and_so_may_the_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    with here, there:
        assert places.may_connect(here)
        real = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)
        assert places.may_connect(here) == (real == 0)


AS_ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user")


@AS_ROOT
def test_another_user_cannot_reach_a_socket(folder: Path, loop: Any) -> None:
    program = f"""
import os, socket, sys
os.setgid({NOBODY})
os.setuid({NOBODY})
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("refused")
"""

    def visit() -> str:
        (address,) = find("all")
        command = [sys.executable, "-c", program, str(address.path)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE).stdout

    folder.chmod(0o700)
    assert inspected(loop, lambda: asyncio.to_thread(visit)) == "refused\n"


@AS_ROOT
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_gives_up_its_privileges_goes_on(folder: Path, when: str) -> None:
    """The kernel hides the descriptors of such a process from others, and the socket may be root's."""
    program = f"""
import asyncio, logging, os, sys
import loopcore, loopcore.kernel.plugins  # now: the other user may not be able to read it
from loopcore_plugins.inspect import Inspect
from loopcore_plugins.inspect.client import connect, find

def drop():
    os.setgid({NOBODY})
    os.setuid({NOBODY})

def look():
    with connect(find("all")[0]) as client:
        return client.ask("ps")["running"]

async def main():
    print(await asyncio.to_thread(look))
    if sys.argv[1] == "after":
        drop()

logging.basicConfig()
logging.getLogger("asyncio").setLevel("CRITICAL")
loopcore.run(asyncio.sleep(0))  # all that is needed is imported
if sys.argv[1] == "before":
    drop()
loopcore.run(main(), plugins=[Inspect()])
"""
    folder.chmod(0o711)
    open_to_all = folder / "tmp"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    environment = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    environment |= {"LOOPCORE_INSPECT_DIR": "", "TMPDIR": str(open_to_all)}
    done = subprocess.run(
        [sys.executable, "-c", program, when],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "Traceback" not in done.stderr
    owner = {"before": NOBODY, "after": 0}[when]
    (place,) = open_to_all.iterdir()
    assert (place.name, place.stat().st_uid) == (f"loopcore-{owner}", owner)
    assert bool(list(place.iterdir())) == ("could not be removed" in done.stderr) == (when == "after")


def test_the_socket_goes_with_the_loop(folder: Path, loopcore_factory: Any) -> None:
    loop = loopcore_factory()
    inspected(loop, lambda: asyncio.sleep(0))
    assert len(list(folder.iterdir())) == 1
    loop.run_until_complete(asyncio.sleep(0))
    assert len(list(folder.iterdir())) == 1
    loop.close()
    assert list(folder.iterdir()) == []


async def test_the_plugin_comes_and_goes_at_run_time(folder: Path, loop: Any) -> None:
    plugin = Inspect(ages=True)
    loop.probes.register(plugin)
    assert len(list(folder.iterdir())) == 1
    assert loop.probes.watching_handles
    loop.probes.unregister(plugin)
    assert list(folder.iterdir()) == []
    assert not loop.probes.watching_handles


def test_the_socket_goes_with_a_process_that_never_closes_its_loop(folder: Path) -> None:
    program = """
import asyncio, loopcore, sys
loop = loopcore.new_event_loop(plugins=["inspect"])
loop.run_until_complete(asyncio.sleep(0))
print("ready", flush=True)
sys.stdin.readline()
"""
    with running(folder, program) as process:
        assert len(list(folder.iterdir())) == 1
        process.communicate("\n", timeout=PATIENCE)
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_leaves_is_removed(folder: Path) -> None:
    with running(folder, SERVER) as process:
        process.kill()
        process.wait()
        (left,) = folder.iterdir()
    assert loopcore("ps", str(process.pid)).returncode == 2
    assert not left.exists()
    dead = folder / "999999.1.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    with running(folder, SERVER) as process:
        assert [path.name for path in folder.iterdir()] == [f"{process.pid}.1.sock"]


def test_a_process_that_ends_while_it_is_looked_at(folder: Path) -> None:
    with running(folder, SERVER) as process, client_of(process) as client:
        assert client.ask("ps")["tasks"]
        process.kill()
        process.wait()
        with pytest.raises(GoneError, match="has ended"):
            client.ask("ps")
        with pytest.raises(GoneError):
            connect(places.Address(process.pid, 1, folder / f"{process.pid}.1.sock"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_the_socket_to_its_parent_and_gets_its_own(folder: Path, backend_name: str) -> None:
    program = """
import asyncio, os, sys
import loopcore

async def parent():
    asyncio.current_task().set_name("the parent")
    if os.fork() == 0:
        return True
    await asyncio.sleep(99)

async def child():
    asyncio.current_task().set_name("the child")
    print("ready", flush=True)
    await asyncio.sleep(99)

if loopcore.run(parent(), plugins=["inspect"]):
    loopcore.run(child(), plugins=["inspect"])
"""
    with running(folder, program, backend=backend_name) as process:
        addresses = find("all")
        try:
            names = {}
            for address in addresses:
                with connect(address) as client:
                    assert client.greeting["pid"] == address.pid
                    names[address.pid == process.pid] = [task["name"] for task in client.ask("ps")["tasks"]]
        finally:
            for address in addresses:
                if address.pid != process.pid:
                    os.kill(address.pid, signal.SIGKILL)
    assert names == {True: ["the parent"], False: ["the child"]}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="masks are read from /proc")
def test_the_thread_ends_with_the_loop_and_takes_no_signals(folder: Path, loopcore_factory: Any) -> None:
    loop = loopcore_factory()
    inspected(loop, lambda: asyncio.sleep(0))
    with connect(find("all")[0]):  # it answers, so it has begun
        pass
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "loopcore-inspect")
    blocked = next(
        line for line in Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines() if "SigBlk" in line
    )
    assert int(blocked.split()[1], 16) & (1 << (signal.SIGTERM - 1))
    loop.close()
    assert not thread.is_alive()
