"""Errors say who is at fault by their type."""

import pytest

from loopcore import errors
from loopcore.errors import BackendClosedError, BackendError, BackendUnavailableError, LoopcoreError, UsageError


def test_every_error_is_a_loopcore_error():
    types = [value for value in vars(errors).values() if isinstance(value, type)]
    assert types
    assert all(issubclass(kind, LoopcoreError) for kind in types)


@pytest.mark.parametrize("kind", [UsageError, BackendError, BackendUnavailableError])
def test_culprits_are_told_apart(kind):
    others = {UsageError, BackendError, BackendUnavailableError} - {kind}
    assert not any(issubclass(kind, other) for other in others)


def test_call_after_close_is_a_broken_contract():
    assert issubclass(BackendClosedError, BackendError)


def test_no_error_is_mistaken_for_one_of_the_operating_system():
    assert not issubclass(LoopcoreError, OSError)
