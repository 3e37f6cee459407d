"""The contract of every mutant: a module for pytest, run in a process of its own by tests/testing/test_mutants.py."""

import inspect
from types import ModuleType

from loopcore.testing.conformance import BackendContract
from tests.testing.mutants import completion, ends, readiness


def mutants() -> dict[str, type]:
    """Return every mutant by its name."""
    modules: tuple[ModuleType, ...] = (readiness, ends, completion)
    return {
        name: found
        for module in modules
        for name, found in vars(module).items()
        if inspect.isclass(found) and "breaks" in vars(found)
    }


for _name, _mutant in mutants().items():
    globals()[f"Test{_name}"] = type(BackendContract)(
        f"Test{_name}",
        (BackendContract,),
        {"__module__": __name__, "backend": f"{_mutant.__module__}:{_name}", "levels": ("shape", "port")},
    )
