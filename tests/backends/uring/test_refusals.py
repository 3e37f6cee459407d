"""What uring can be told to do without, and what it says where it cannot run."""

import errno
import os

import pytest

from loopcore.errors import BackendUnavailableError, UsageError
from loopcore_backends.uring import UringBackend, features, layout, report, ring
from tests.backends.uring.kit import needs_uring


def test_unknown_mask_is_refused_with_what_there_is(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "bundles, multishots")
    with pytest.raises(
        UsageError, match=r"LOOPCORE_URING_WITHOUT names multishots; it can name defer_taskrun, .*bundles"
    ):
        features.masked()


def test_unknown_mask_of_an_argument_is_refused():
    with pytest.raises(UsageError, match="without= names nothing_such"):
        features.masked(["nothing_such"])


def test_one_name_in_place_of_several_is_refused():
    with pytest.raises(UsageError, match=r"without=\['files'\]"):
        features.masked("files")


def test_masks_of_the_environment_and_of_the_argument_add_up(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "bundles,")
    assert features.masked(["files"]) == {"bundles", "files"}


def test_wrong_mask_is_an_error_and_no_lack_of_the_platform(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "bundle")
    with pytest.raises(UsageError, match="names bundle; it can name"):
        UringBackend.probe()


ALL_ON = features.Features(*[True] * len(features.NAMES))


def test_report_says_why_each_feature_is_off():
    used = ALL_ON._replace(waitid=False, incremental=False, files=False)
    found = report.states(used, {"files"})
    assert tuple(found) == features.NAMES
    assert found["waitid"] == "refused by this kernel: it came with Linux 6.7"
    assert found["incremental"] == "refused by this kernel: it came with Linux 6.12"
    assert found["files"] == "masked by LOOPCORE_URING_WITHOUT"
    assert {found[name] for name in set(features.NAMES) - {"waitid", "incremental", "files"}} == {"on"}


def test_report_names_what_a_feature_needs_and_what_takes_its_place():
    none = report.states(ALL_ON._replace(buffer_ring=False, bundles=False), {"buffer_ring"})
    assert none["bundles"] == "off: it needs buffer_ring"
    assert report.states(ALL_ON, ())["bundles"] == "off: incremental is used instead"


@needs_uring
def test_report_agrees_with_a_ring(monkeypatch):
    monkeypatch.setenv(features.VARIABLE, "inline_sends,files")
    found = UringBackend.details()
    assert [name for name, state in found.items() if state.startswith("masked")] == ["inline_sends", "files"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errno.ENOSYS, "has no io_uring"),
        (errno.EPERM, "forbidden"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENOMEM, "ulimit -l"),
        (errno.EIO, "fails"),
    ],
)
def test_refusal_says_what_to_do(error, words):
    assert words in features.refusal_by_error(error)


@pytest.mark.parametrize(
    ("switch", "words"), [("2\n", "disabled is 2"), ("1\n", "io_uring_group"), ("0\n", "seccomp"), (None, "seccomp")]
)
def test_refusal_names_who_forbids(monkeypatch, tmp_path, switch, words):
    path = tmp_path / "io_uring_disabled"
    if switch is not None:
        path.write_text(switch)
    monkeypatch.setattr(features, "SWITCH", str(path))
    assert words in features.refusal_by_error(errno.EPERM)


def test_an_old_kernel_is_refused_with_its_release():
    known = features.decide(0, frozenset(), True, frozenset())
    assert "needs Linux 5.19 or newer" in features.refusal_by_kernel(0, frozenset(), known, True)


@pytest.mark.parametrize("has_barriers", [True, False])
def test_a_ring_that_the_kernel_may_write_meanwhile_is_read_with_barriers(monkeypatch, has_barriers):
    monkeypatch.setattr(features.platform, "machine", lambda: "aarch64")
    opcodes = frozenset({layout.OP_SOCKET})
    known = features.decide(features._NEEDED, opcodes, False, frozenset())
    refusal = features.refusal_by_kernel(features._NEEDED, opcodes, known, has_barriers)
    assert ("interpreted on aarch64" in refusal) is not has_barriers


@needs_uring
@pytest.mark.skipif(not str(ring.__file__).endswith(".py"), reason="compiled, the system call cannot be replaced")
def test_ring_whose_memory_is_being_given_back_is_asked_for_again(monkeypatch):
    answers = [-errno.ENOMEM, -errno.ENOMEM]
    really = ring.ring_setup
    monkeypatch.setattr(ring, "ring_setup", lambda *arguments: answers.pop() if answers else really(*arguments))
    UringBackend().close()
    assert answers == []


@needs_uring
def test_without_a_descriptor_for_the_ring_the_constructor_says_so():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    waker = 1 if hasattr(os, "eventfd") else 2  # without eventfd(2) it is a pair of sockets
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + waker, hard))
    try:
        with pytest.raises(BackendUnavailableError, match=r"no descriptor left for the ring .*ulimit -n"):
            UringBackend()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
