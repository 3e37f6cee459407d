"""The page on metrics has all of them, and its queries name none that is not there."""

import re

from loopcore_plugins.metrics.catalogue import CATALOGUE
from tests.docs import metrics_page
from tests.plugins.metrics import prometheus_show


def test_the_table_is_written_from_the_catalogue_as_it_is() -> None:
    page = metrics_page.PAGE.read_text(encoding="utf-8")
    assert page == metrics_page.page(), "run: python -m tests.docs.metrics_page"


def test_queries_name_metrics_and_labels_that_exist() -> None:
    known = {metric.prometheus_name: {*metric.labels, "loop", "backend", "instance", "le"} for metric in CATALOGUE}
    found = set()
    for query in prometheus_show.queries():
        for name, selector in re.findall(r"(loopcore_\w+)(\{[^}]*\})?", query):
            name = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in known, query
            assert set(re.findall(r"(\w+)=", selector)) <= known[name], query
            found.add(name)
    assert len(found) > 10
