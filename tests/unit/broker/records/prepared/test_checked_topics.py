"""Topics whose records are opened are not served in the prepared way."""

from __future__ import annotations

from sordini.broker.records.prepared.produce import codecs_stored_as_sent
from tests.support.builders import RULES


def test_no_batch_of_a_topic_that_checks_schema_ids_is_stored_as_it_was_sent() -> None:
    assert codecs_stored_as_sent(RULES, 11)
    assert codecs_stored_as_sent(RULES._replace(check_schema_ids=True), 11) == frozenset()
