"""These tests are run when they are asked for by their path, not as a part of the whole suite.

They take a minute or two and would be the same for each run of the suite; .ci/run and tox.ini have a step of their own.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked_for = (Path(argument.split("::")[0]).resolve() for argument in config.args)
    return None if any(path == HERE or HERE in path.parents for path in asked_for) else True
