"""Every promise of the port, and a loop on top of it: three lines, and loopcore's tests."""

from loopcore.testing.conformance import BackendContract


class TestTemplate(BackendContract):
    backend = "template"
