"""Every promise of the port, and a loop that runs on it: three lines, and loopcore's tests."""

from loopcore.testing.conformance import BackendContract


class TestTemplate(BackendContract):
    backend = "template"
