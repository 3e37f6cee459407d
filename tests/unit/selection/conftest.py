"""A world in which only those entry points exist that a test installs."""

from importlib import metadata

import pytest

from loopcore.selection import discovery
from loopcore.selection.catalogue import Catalogue


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No choice in the environment, and nothing remembered from or for other tests."""
    monkeypatch.delenv("LOOPCORE_BACKEND", raising=False)
    monkeypatch.delenv("LOOPCORE_PLUGINS", raising=False)
    discovery.refresh()
    yield
    for catalogue in (discovery.BACKENDS, discovery.PLUGINS):
        catalogue._registered.clear()
        catalogue.refresh()


def own_by_metadata(catalogue, name):
    return next((each for each in catalogue.declarations(name) if each.own), None)


@pytest.fixture
def install(monkeypatch):
    """Makes these the only entry points there are."""

    def pretend(*entries, group="loopcore.backends"):
        there_are = {group: entries}
        monkeypatch.setattr(metadata, "entry_points", lambda group: there_are.get(group, ()))
        monkeypatch.setattr(Catalogue, "own", own_by_metadata)
        discovery.refresh()
        return entries

    return pretend
