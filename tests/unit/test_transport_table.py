"""The table of descriptors and their transports: look-ups, and when an entry is removed."""

import gc

import pytest

from loopcore.services.transport_table import TransportTable


class Transport:
    pass


def test_a_transport_is_found_by_its_descriptor() -> None:
    table, transport = TransportTable(), Transport()
    table[5] = transport
    assert table.get(5) is transport
    assert table[5] is transport
    assert 5 in table
    assert list(table) == [5]
    assert table.values() == [transport]
    assert len(table) == 1


def test_of_one_that_nobody_owns_nothing_is_known() -> None:
    table = TransportTable()
    assert table.get(5) is None
    assert table.get(5, "nobody") == "nobody"
    assert 5 not in table
    with pytest.raises(KeyError):
        table[5]
    with pytest.raises(KeyError):
        del table[5]
    table.discard(5, Transport())


def test_an_entry_goes_when_it_is_discarded() -> None:
    table, transport = TransportTable(), Transport()
    table[5] = table[6] = transport
    table.discard(5, transport)
    del table[6]
    assert len(table) == 0


def test_a_number_that_another_transport_has_by_now_stays_its_own() -> None:
    table, first, second = TransportTable(), Transport(), Transport()
    table[5] = first
    table[5] = second
    table.discard(5, first)
    assert table.get(5) is second


def test_a_transport_is_not_kept_alive() -> None:
    table = TransportTable()
    table[5] = Transport()
    gc.collect()
    assert table.get(5) is None
    assert table.values() == []
    assert len(table) == 0
