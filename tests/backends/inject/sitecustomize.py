"""Run by each Python that a test starts under LOOPCORE_TEST_KQUEUE; see `tests/backends/kqueues.py`."""

from tests.backends.kqueues import install

install()
