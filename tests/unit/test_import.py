"""What `import loopcore` imports: only what every program needs."""

import asyncio
import os
import subprocess
import sys

import pytest

import loopcore
from loopcore.build_info import describe_build

LATER = (
    "loopcore.endpoints",
    "loopcore.transports",
    "loopcore.streams",
    "loopcore.services.resolver",
    "loopcore.kernel.plugins",
    "loopcore.selection.plugin_options",
    "pluggy",
    "importlib.metadata",
)
"""What is imported by the first connection, lookup of a name, named backend or plugin."""


def imported_by(program: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOOPCORE_")}
    return set(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("program", ["import loopcore", "import asyncio, loopcore; loopcore.run(asyncio.sleep(0))"])
def test_a_small_program_does_not_import_it(program: str) -> None:
    assert [name for name in imported_by(program) if name.startswith(LATER)] == []


def test_a_python_without_openssl_imports_it_all() -> None:
    program = """
sys.modules["ssl"] = sys.modules["_ssl"] = None
import asyncio, loopcore, loopcore.group
async def main():
    server = await loopcore.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await loopcore.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    writer.close()
    server.close()
loopcore.run(main())
"""
    assert "loopcore.group.member" in imported_by(program)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="concurrent.interpreters is of 3.14")
def test_another_interpreter_runs_the_pure_build_and_is_told_that_compiled_modules_are_for_one() -> None:
    program = """
from concurrent import interpreters
other = interpreters.create()
try:
    other.exec("import asyncio, loopcore; assert loopcore.run(asyncio.sleep(0, 5)) == 5")
except interpreters.ExecutionFailed as error:
    assert error.excinfo.type.__name__ == "ImportError" and "subinterpreters" in error.excinfo.msg, error
    print("refused")
other.close()
"""
    assert ("refused" in imported_by(program)) is describe_build().compiled


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_imports_nothing() -> None:
    """Another thread of the parent may have held the lock of a module, which then is never released in the child."""
    program = """
import os, loopcore
loop = loopcore.new_event_loop()
before = set(sys.modules)
if os.fork() == 0:
    os._exit(set(sys.modules) != before)
loop.close()
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""
    assert "loopcore.services.forking" in imported_by(program)


def test_the_first_server_imports_it() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        server.close()
        await server.wait_closed()

    loopcore.run(main())
    assert "loopcore.endpoints.assembly" in sys.modules
