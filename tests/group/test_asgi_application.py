"""Finding the ASGI application of `loopcore serve`: objects, factories, copies, and what is said of others."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopcore.cli.serve import read_option
from loopcore.errors import UsageError
from loopcore.serving.application import find_application, load_application

SOURCE = """
import asgi_part
class App:
    async def __call__(self, scope, receive, send): ...
app = App()
number = 3
part = asgi_part.app
def create():
    return App()
def needs(argument): ...
def broken():
    return len(3)
async def coroutine(): ...
def nothing(): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with modules, which are forgotten afterwards."""
    (tmp_path / "asgi_main.py").write_text(SOURCE)
    (tmp_path / "asgi_part.py").write_text("def app(): ...\n")
    (tmp_path / "asgi_once.py").write_text("import asgi_part\nif hasattr(asgi_part, 'once'): raise KeyError('twice')\n")
    with (tmp_path / "asgi_once.py").open("a") as file:
        file.write("asgi_part.once = True\ndef app(): ...\n")
    (tmp_path / "asgi_needs.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("asgi_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("folder")
def test_an_object_is_found_and_a_factory_is_called() -> None:
    app = load_application("asgi_main:app")
    assert app is load_application("asgi_main:app")
    assert load_application("asgi_main:create", factory=True) is not load_application("asgi_main:create", factory=True)


@pytest.mark.usefixtures("folder")
def test_a_copy_is_another_object_but_what_its_module_imports_is_the_same() -> None:
    app, copy = load_application("asgi_main:app"), load_application("asgi_main:app", copy=True)
    assert type(app).__name__ == type(copy).__name__
    assert app is not copy
    assert sys.modules["asgi_main"].app is app
    assert load_application("asgi_main:part") is load_application("asgi_main:part", copy=True)


@pytest.mark.usefixtures("folder")
def test_a_module_that_cannot_be_executed_twice_says_what_to_do_instead() -> None:
    load_application("asgi_once:app")
    with pytest.raises(UsageError, match=r"once for each loop \(KeyError: 'twice'\); use --factory .* --shared-app"):
        load_application("asgi_once:app", copy=True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("asgi_main", r"'asgi_main' names no application; write MODULE:ATTRIBUTE, as in asgi_main:app"),
        ("asgi_main:", r"names no application"),
        ("asgi_main.py", r"is a file; name its module, as in asgi_main:app"),
        ("./sub/main.py:create", r"is a file; name its module, as in sub.main:create"),
        (
            "asgi_mian:app",
            r"cannot find module 'asgi_mian' for 'asgi_mian:app' \(did you mean 'asgi_main'\?\); looked in",
        ),
        ("asgi_main.sub:app", r"cannot find module 'asgi_main.sub'"),
        ("asgi_main:ap", r"module 'asgi_main' has no 'ap' \(did you mean 'app'\?\)"),
        ("asgi_main:number", r"'asgi_main:number' is an int, not an ASGI application"),
    ],
)
def test_what_is_no_application_is_explained(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_application(target)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("needs", r"cannot be called without arguments, as a factory is: needs\(\) missing"),
        ("coroutine", r"is a coroutine function, and a factory is a plain one"),
        ("nothing", r"returned None, not an ASGI application"),
    ],
)
def test_what_is_no_factory_is_explained(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_application(f"asgi_main:{name}", factory=True)


@pytest.mark.usefixtures("folder")
def test_the_applications_own_errors_pass_through() -> None:
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        load_application("asgi_needs:app")
    with pytest.raises(TypeError, match=r"len\(\)"):
        load_application("asgi_main:broken", factory=True)


@pytest.mark.usefixtures("folder")
def test_finding_imports_nothing() -> None:
    find_application("asgi_needs:app")
    assert "asgi_needs" not in sys.modules
    with pytest.raises(UsageError, match="cannot find module 'asgi_neds'"):
        find_application("asgi_neds:app")
    with pytest.raises(UsageError, match=r"cannot find module 'asgi_none'"):
        find_application("asgi_none.sub:app")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("log_level=warning", ("log_level", "warning")),
        ("backlog=10", ("backlog", 10)),
        ("access_log=false", ("access_log", False)),
        ("headers=[('a', 'b')]", ("headers", [("a", "b")])),
        ("root_path=/a=b", ("root_path", "/a=b")),
        ("root_path=", ("root_path", "")),
    ],
)
def test_options_of_the_server_are_literals_or_text(text: str, option: tuple[str, object]) -> None:
    assert read_option(text) == option


@pytest.mark.parametrize("text", ["log_level", "=3", "log-level=x"])
def test_an_option_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        read_option(text)
