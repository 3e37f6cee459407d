"""CPython's own tests of asyncio on loopcore: `pytest tests/asyncio_compat`, one test for each module.

The backend is the one that LOOPCORE_BACKEND names, else the best of the platform. `run.py` beside this prints tables,
runs other Pythons, and lays the results beside asyncio's own.
"""

from functools import cache

import pytest

from tests.asyncio_compat.exclusions import of_module, read_exclusions
from tests.asyncio_compat.harness import Interpreter, NoTestPackage, Run, examine


@cache
def _interpreter() -> Interpreter | None:
    try:
        return examine()
    except NoTestPackage:
        return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "module" not in metafunc.fixturenames:
        return
    interpreter = _interpreter()
    marks = [] if interpreter else [pytest.mark.skip(reason="this Python was installed without test.test_asyncio")]
    names = interpreter.modules if interpreter else ("none",)
    metafunc.parametrize("module", [pytest.param(name, marks=marks) for name in names])


def test_module_of_cpython(module: str) -> None:
    from loopcore.selection.discovery import choose_backend

    interpreter = examine()
    exclusions = read_exclusions()
    for exclusion in of_module(exclusions, module, interpreter.version):
        if exclusion.whole_module:
            pytest.skip(exclusion.reason)
    result = Run(interpreter, choose_backend(None).name, exclusions).module(module)
    complaints = [*result.problems, *(f"{each.outcome}: {each.test}\n{each.details}" for each in result.bad)]
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


def test_exclusions_are_of_modules_that_exist() -> None:
    interpreter = _interpreter()
    if interpreter is None:
        pytest.skip("this Python was installed without test.test_asyncio")
    unknown = [
        exclusion.module
        for exclusion in read_exclusions()
        if exclusion.covers(interpreter.version) and exclusion.module not in interpreter.modules
    ]
    assert unknown == []
