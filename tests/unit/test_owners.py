"""Who owns which descriptor: what is asked of the table by name, and when an entry goes."""

import gc

import pytest

from loopcore.services.owners import Owners


class Transport:
    pass


def test_a_transport_is_found_by_its_descriptor() -> None:
    owners, transport = Owners(), Transport()
    owners[5] = transport
    assert owners.get(5) is transport
    assert owners[5] is transport
    assert 5 in owners
    assert list(owners) == [5]
    assert owners.values() == [transport]
    assert len(owners) == 1


def test_of_one_that_nobody_owns_nothing_is_known() -> None:
    owners = Owners()
    assert owners.get(5) is None
    assert owners.get(5, "nobody") == "nobody"
    assert 5 not in owners
    with pytest.raises(KeyError):
        owners[5]
    with pytest.raises(KeyError):
        del owners[5]
    owners.discard(5, Transport())


def test_an_entry_goes_when_it_is_discarded() -> None:
    owners, transport = Owners(), Transport()
    owners[5] = owners[6] = transport
    owners.discard(5, transport)
    del owners[6]
    assert len(owners) == 0


def test_a_number_that_another_transport_has_by_now_stays_its_own() -> None:
    owners, first, second = Owners(), Transport(), Transport()
    owners[5] = first
    owners[5] = second
    owners.discard(5, first)
    assert owners.get(5) is second


def test_a_transport_is_not_kept_alive() -> None:
    owners = Owners()
    owners[5] = Transport()
    gc.collect()
    assert owners.get(5) is None
    assert owners.values() == []
    assert len(owners) == 0
