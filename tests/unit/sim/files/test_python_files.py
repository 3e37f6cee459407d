import errno
import fcntl
import io
import logging
import mmap
import os
import pathlib
import shutil
import sqlite3
import ssl
import stat
import tempfile
import time

import pytest

from loopcore.ports.operations import Close, Open, Read, Stat, Sync, Write
from loopcore.sim.errors import NotSimulatedError
from loopcore_backends.sim.descriptors import FIRST
from loopcore_backends.sim.files.calls import perform


def test_a_program_writes_and_reads_a_file(simulated):
    with simulated():
        with open("/sim/notes.txt", "w", encoding="utf-8", newline="\n") as file:
            assert isinstance(file, io.TextIOWrapper)
            assert file.fileno() >= FIRST
            assert file.mode == "w"
            assert file.name == "/sim/notes.txt"
            file.write("one\ntwo é\n")
        with open("/sim/notes.txt", encoding="utf-8") as file:
            assert list(file) == ["one\n", "two é\n"]
        assert pathlib.Path("/sim/notes.txt").read_bytes() == "one\ntwo é\n".encode()
    assert not os.path.exists("/sim/notes.txt")


def test_file_is_stamped_with_the_time_that_the_program_reads(simulated):
    with simulated():
        time.sleep(0.0137)
        with open("/sim/stamped", "w") as file:
            file.write("now")
        assert os.stat("/sim/stamped").st_mtime_ns == time.time_ns()


def test_nothing_real_is_changed(simulated, tmp_path):
    real = tmp_path / "real.txt"
    real.write_text("real")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("inside")
    before = real.stat()
    with simulated():
        assert real.read_text() == "real"
        with open(real, "a") as file:
            file.write(" and more")
        assert real.read_text() == "real and more"
        assert real.stat().st_size == 13
        real.chmod(0o400)
        os.utime(real, (1, 2))
        shutil.rmtree(tmp_path / "folder")
        assert os.listdir(tmp_path) == ["real.txt"]
        os.rename(real, tmp_path / "renamed")
        (tmp_path / "new").write_text("new")
        assert sorted(os.listdir(tmp_path)) == ["new", "renamed"]
        assert not real.exists()
    assert sorted(os.listdir(tmp_path)) == ["folder", "real.txt"]
    assert (tmp_path / "folder" / "inside").read_text() == "inside"
    after = real.stat()
    assert (after.st_mtime_ns, after.st_mode, after.st_size) == (before.st_mtime_ns, before.st_mode, before.st_size)


def test_a_real_file_is_read_through_a_real_descriptor(simulated, tmp_path):
    real = tmp_path / "real.txt"
    real.write_text("real")
    with simulated():
        with open(real) as file:
            assert file.fileno() < FIRST
            assert file.read() == "real"
        fd = os.open(real, os.O_RDONLY)
        assert os.read(fd, 10) == b"real"
        assert os.fstat(fd).st_ino == os.stat(real).st_ino
        os.close(fd)


def test_trees_of_the_kernel_are_read_only(simulated):
    with simulated():
        assert b"Name" in pathlib.Path("/proc/self/status").read_bytes()
        with open("/dev/null", "w") as file:
            file.write("gone")
        with pytest.raises(NotSimulatedError, match="urandom"):
            open("/dev/urandom", "rb")  # noqa: SIM115
        with pytest.raises(OSError, match="Read-only") as caught:
            open("/dev/shm/loopcore-new", "w")  # noqa: SIM115
        assert caught.value.filename == "/dev/shm/loopcore-new"
        with pytest.raises(NotSimulatedError, match="writing to"):
            open("/proc/self/comm", "w")  # noqa: SIM115


def test_temporary_files_and_folders(simulated):
    with simulated():
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a", "b").mkdir(parents=True)
            pathlib.Path(folder, "a", "b", "c.txt").write_text("c")
            assert [os.path.basename(where) for where, _, _ in os.walk(folder)][1:] == ["a", "b"]
            assert [path.name for path in pathlib.Path(folder).rglob("*.txt")] == ["c.txt"]
        assert not os.path.exists(folder)
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"named")
            file.flush()
            assert os.path.getsize(file.name) == 5
        with tempfile.TemporaryFile("w+b") as file:
            file.write(b"nameless")
            file.seek(0)
            assert file.read() == b"nameless"
            assert os.fstat(file.fileno()).st_nlink == 0
    assert not os.path.exists(folder)


def test_shutil_copies_moves_and_removes(simulated, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "x").write_text("x" * 10_000)
    (tmp_path / "source" / "link").symlink_to("x")
    with simulated():
        shutil.copytree(tmp_path / "source", "/sim/copy", symlinks=True)
        assert os.readlink("/sim/copy/link") == "x"
        assert pathlib.Path("/sim/copy/x").read_text() == "x" * 10_000
        shutil.move("/sim/copy", "/sim/moved")
        shutil.copy2("/sim/moved/x", "/sim/moved/y")
        assert os.path.samefile("/sim/moved/link", "/sim/moved/x")
        assert shutil.disk_usage("/sim").free > 0
        shutil.rmtree("/sim/moved")
        assert os.listdir("/sim") == []


def test_times_are_of_the_simulated_clock(simulated):
    with simulated() as world:
        pathlib.Path("/sim/a").write_text("a")
        world.now_ns += 5_000_000_000
        pathlib.Path("/sim/b").write_text("b")
        assert os.stat("/sim/b").st_mtime - os.stat("/sim/a").st_mtime == pytest.approx(5)
        assert os.stat("/sim/b").st_mtime == pytest.approx(time.time(), abs=1)
        os.utime("/sim/a", ns=(10, 20))
        assert os.stat("/sim/a").st_mtime_ns == 20


def test_positions_and_appending(simulated):
    with simulated():
        fd = os.open("/sim/log", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o600
        assert os.write(fd, b"0123456789") == 10
        assert os.lseek(fd, 2, os.SEEK_SET) == 2
        buffers = [bytearray(2), bytearray(3)]
        assert os.readv(fd, buffers) == 5
        assert [bytes(each) for each in buffers] == [b"23", b"456"]
        assert os.pread(fd, 4, 8) == b"89"
        assert os.pwrite(fd, b"xx", 1) == 2
        other = os.dup(fd)
        assert os.lseek(other, 0, os.SEEK_CUR) == 7
        os.ftruncate(fd, 20_000)
        assert os.stat("/sim/log").st_size == 20_000
        assert os.pread(fd, 30_000, 0) == b"0xx3456789" + bytes(19_990)
        appending = os.open("/sim/log", os.O_WRONLY | os.O_APPEND)
        os.write(appending, b"end")
        assert os.stat("/sim/log").st_size == 20_003
        for each in (fd, other, appending):
            os.close(each)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_errors_name_the_file(simulated):
    with simulated():
        with pytest.raises(FileNotFoundError) as caught:
            open("/sim/none")  # noqa: SIM115
        assert caught.value.filename == "/sim/none"
        with pytest.raises(FileNotFoundError) as caught:
            os.rename("/sim/none", "/sim/other")
        assert (caught.value.filename, caught.value.filename2) == ("/sim/none", "/sim/other")
        with pytest.raises(IsADirectoryError) as caught:
            open("/sim")  # noqa: SIM115
        assert caught.value.filename == "/sim"
        with pytest.raises(ValueError, match="invalid mode"):
            open("/sim/x", "q")  # noqa: SIM115, PLW1501
        with pytest.raises(ValueError, match="binary mode"):
            open("/sim/x", "wb", encoding="utf-8")  # noqa: SIM115
        assert not os.path.exists("/sim/x")
        with pytest.raises(TypeError):
            os.stat(None)


def test_a_full_disk_takes_what_fits(simulated):
    with simulated() as world:
        pathlib.Path("/sim/a").write_bytes(b"")
        disk = world.host.disk
        disk.size = disk.used + 8_192
        fd = os.open("/sim/a", os.O_WRONLY)
        assert os.write(fd, bytes(10_000)) == 8_192
        with pytest.raises(OSError, match="No space left") as caught:
            os.write(fd, b"x")
        assert caught.value.errno == errno.ENOSPC
        os.unlink("/sim/a")
        os.close(fd)
        pathlib.Path("/sim/b").write_bytes(bytes(8_192))


def test_permissions_are_checked(simulated):
    with simulated() as world:
        path = pathlib.Path("/sim/secret")
        path.write_text("secret")
        world.host.disk.uid = 1000
        world.host.disk.gid = 1000
        os.umask(0o077)
        with pytest.raises(PermissionError):
            path.write_text("other")
        assert path.read_text() == "secret"
        assert not os.access(path, os.W_OK)
        with pytest.raises(PermissionError):
            path.unlink()
        with pytest.raises(PermissionError):
            os.chmod(path, 0o777)


def test_the_working_directory_is_simulated(simulated):
    real = os.getcwd()
    with simulated():
        assert os.getcwd() == real
        os.chdir("/sim")
        os.makedirs("one/two")
        pathlib.Path("one/two/three").write_text("3")
        os.chdir("one")
        assert pathlib.Path.cwd() == pathlib.Path("/sim/one")
        assert os.path.realpath("two/three") == "/sim/one/two/three"
    assert os.getcwd() == real


def test_flock_excludes_other_open_files(simulated):
    with simulated() as world:
        with open("/sim/lock", "w") as one, open("/sim/lock", "w") as two:
            fcntl.flock(one, fcntl.LOCK_EX)
            with pytest.raises(BlockingIOError):
                fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            world.at(world.now + 1, lambda: fcntl.flock(one, fcntl.LOCK_UN), "unlock")
            fcntl.flock(two, fcntl.LOCK_EX)
            assert world.now == 1


def test_what_opens_files_in_c_is_refused(simulated):
    with simulated():
        with open("/sim/map", "wb+") as file:
            file.write(b"x")
            file.flush()
            with pytest.raises(NotSimulatedError, match="mmap"):
                mmap.mmap(file.fileno(), 1)
        with pytest.raises(NotSimulatedError, match=":memory:"):
            sqlite3.connect("/sim/base.db")
        sqlite3.connect(":memory:").close()
        with pytest.raises(NotSimulatedError, match="mkfifo"):
            os.mkfifo("/sim/fifo")


def test_a_copy_of_a_real_function_changes_nothing_real(simulated, tmp_path):
    (tmp_path / "real").write_text("real")
    copies = [
        lambda unlink=os.unlink: unlink(tmp_path / "real"),
        lambda rename=os.rename: rename(tmp_path / "real", tmp_path / "other"),
        lambda opened=open: opened(tmp_path / "real", "w"),
        lambda opened=os.open: opened(tmp_path / "new", os.O_CREAT | os.O_WRONLY),
        lambda mkdir=os.mkdir: mkdir(tmp_path / "new"),
    ]
    with simulated():
        for copy in copies:
            with pytest.raises(NotSimulatedError, match="copy of the real function"):
                copy()
    assert os.listdir(tmp_path) == ["real"]
    assert (tmp_path / "real").read_text() == "real"


def test_certificates_written_by_the_program_are_loaded(simulated):
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    certificate = authority.issue_cert("host.test")
    with simulated():
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(context)
        authority.cert_pem.write_to_path("/sim/authority.pem")
        context.load_verify_locations("/sim/authority.pem")
        assert len(context.get_ca_certs()) == 1


def test_a_file_that_is_not_closed_is_reported(simulated):
    with simulated():
        with pytest.warns(ResourceWarning, match=r"unclosed file <_io.TextIOWrapper name='/sim/open'"):
            open("/sim/open", "w")  # noqa: SIM115


def test_logging_to_a_file(simulated):
    with simulated():
        handler = logging.FileHandler("/sim/log.txt")
        logger = logging.getLogger("loopcore.tests.simulated")
        logger.addHandler(handler)
        logger.warning("hello")
        handler.close()
        assert pathlib.Path("/sim/log.txt").read_text() == "hello\n"


def test_file_io_is_still_a_class(simulated, tmp_path):
    (tmp_path / "real").write_text("real")
    with simulated():
        with io.FileIO("/sim/raw", "w") as raw:
            assert isinstance(raw, io.FileIO)
            assert raw.write(b"raw") == 3
        with io.FileIO(tmp_path / "real") as raw:
            assert isinstance(raw, io.FileIO)
            assert raw.read() == b"real"


def test_operations_of_the_port(simulated):
    with simulated() as world:
        fd = perform(world, Open(b"/sim/file", os.O_RDWR | os.O_CREAT, 0o644))
        write = Write(fd, 0)
        write.buffers = (b"--hello", b" world")
        write.head = 2
        assert perform(world, write) == 11
        assert perform(world, Read(fd, 5, 6)) == b"world"
        assert perform(world, Read(fd, 5)) == b"hello"
        assert perform(world, Sync(fd, True)) is None
        assert perform(world, Stat(fd, None)).st_size == 11
        assert perform(world, Stat(-1, b"/sim/file")).st_size == 11
        assert perform(world, Close(fd)) is None
        error = perform(world, Read(fd, 5, 0))
        assert isinstance(error, OSError)
        assert error.errno == errno.EBADF
        assert isinstance(perform(world, Open(b"/sim/none", os.O_RDONLY, 0)), FileNotFoundError)


def test_every_host_has_its_own_disk(simulated):
    with simulated() as world:
        pathlib.Path("/sim/mine").write_text("mine")
        world.host = world.add_host("other")
        assert not os.path.exists("/sim/mine")
        world.host = world.main
        assert os.path.exists("/sim/mine")
