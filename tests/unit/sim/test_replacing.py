import importlib
import os
import sys
import threading
import time
from pathlib import Path
from time import sleep
from unittest import mock

import pytest

from loopcore.errors import UsageError
from loopcore_backends.sim.replacing import SIMULATED_THREADS, installed

REAL_SLEEP = sleep
REAL_TIME = time.time


def five() -> float:
    return 5.0


def test_functions_are_replaced_and_put_back() -> None:
    with installed([(time, "time", five)]):
        assert time.time() == 5.0
    assert time.time is REAL_TIME


def test_everything_is_put_back_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), installed([(time, "time", five)]):
        raise ZeroDivisionError
    assert time.time is REAL_TIME
    assert not SIMULATED_THREADS


def test_an_unknown_attribute_is_an_error_and_leaves_nothing_behind() -> None:
    with pytest.raises(AttributeError, match="time has no attribute 'tyme'"):
        with installed([(time, "time", five), (time, "tyme", five)]):
            pass
    assert time.time is REAL_TIME


def test_copies_in_other_modules_are_replaced_too() -> None:
    slept: list[float] = []
    with installed([(time, "sleep", slept.append)]):
        sleep(3)
    assert slept == [3]
    assert sleep is REAL_SLEEP


def test_a_global_may_hide_a_builtin_without_being_searched_for() -> None:
    before = set(vars(sys.modules[__name__]))
    with installed([(sys.modules[__name__], "set", frozenset)]):
        assert set("a") == frozenset("a")
        assert os.__builtins__["set"] is not frozenset  # type: ignore[index]
    assert vars(sys.modules[__name__]).keys() == before


def test_methods_of_classes_bind() -> None:
    class Greeter:
        def greet(self) -> str:
            return "hello"

    def greet(self: Greeter) -> str:
        return f"simulated {type(self).__name__}"

    with installed([(Greeter, "greet", greet)]):
        assert Greeter().greet() == "simulated Greeter"
    assert Greeter().greet() == "hello"


def test_an_inherited_method_is_removed_again() -> None:
    class Child(dict[str, int]):
        pass

    with installed([(Child, "__len__", lambda self: 7)]):
        assert len(Child()) == 7
    assert "__len__" not in vars(Child)


def test_a_module_imported_meanwhile_has_the_originals_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_meanwhile.py").write_text(
        "from time import time\nclass Timer:\n    clock = time\ndef default(clock=time): return clock()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with installed([(time, "time", five)]):
        module = importlib.import_module("imported_meanwhile")
        assert module.time() == 5.0
        assert module.Timer().clock() == 5.0
    assert module.time is REAL_TIME
    assert module.Timer().clock() > 1e9  # what it kept in classes and defaults reads the real clock again
    assert module.default() > 1e9
    with installed([(time, "time", lambda: 6.0)]):
        assert (module.time(), module.Timer().clock(), module.default()) == (6.0, 6.0, 6.0)
    assert module.time is REAL_TIME
    del sys.modules["imported_meanwhile"]


def test_a_global_added_between_two_simulations_is_found() -> None:
    with installed([(time, "time", five)]):
        pass
    module = sys.modules[__name__]
    vars(module)["added_later"] = REAL_TIME
    try:
        with installed([(time, "time", five)]):
            assert vars(module)["added_later"]() == 5.0
        assert vars(module)["added_later"] is REAL_TIME
    finally:
        del vars(module)["added_later"]


def test_other_threads_see_the_real_functions() -> None:
    seen: list[float] = []
    with installed([(time, "time", five)]):
        thread = threading.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
    assert seen[0] > 1e9


def test_nesting_is_refused() -> None:
    with installed([(time, "time", five)]):
        with pytest.raises(UsageError, match="running in this process already"), installed([]):
            pass
        assert time.time() == 5.0


def test_what_the_program_put_there_stays() -> None:
    with mock.patch("time.time", return_value=1.0) as mocked, installed([(time, "time", five)]):
        assert time.time() == 1.0
        assert time.time is mocked


def test_what_the_program_put_in_place_of_a_copy_stays() -> None:
    with installed([(time, "sleep", five)]):
        pass  # the copies are known from now on
    with mock.patch(f"{__name__}.sleep") as mocked, installed([(time, "sleep", five)]):
        assert sleep is mocked
    assert sleep is REAL_SLEEP


def test_a_patch_undone_after_the_simulation_does_not_break_the_next() -> None:
    patch = mock.patch("time.time")
    with installed([(time, "time", five)]):
        patch.start()
    assert time.time is REAL_TIME
    patch.stop()  # puts the stand-in back
    try:
        assert time.time() > 1e9
        with installed([(time, "time", lambda: 8.0)]):
            assert time.time() == 8.0
    finally:
        time.time = REAL_TIME


def test_values_and_classes_are_put_there_as_they_are() -> None:
    class Simulated:
        pass

    module = sys.modules[__name__]
    with installed([(module, "Path", Simulated), (module, "__doc__", "text")]):
        assert Path is Simulated
        assert __doc__ == "text"
    assert Path is not Simulated
    assert __doc__ is None
