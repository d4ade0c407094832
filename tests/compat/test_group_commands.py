"""`sordini groups` before Apache Kafka 4.4: the situations of our own broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_jars
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.process.test_cli import run_here
from tests.process.test_consumer_group_commands import (
    SETTINGS,
    Run,
    join,
    orders,
    run,
    test_a_classic_group_has_a_paragraph_for_each_member_too,
    test_a_consumer_group_is_described_with_all_that_its_coordinator_knows,
    test_a_group_whose_members_speak_both_protocols_is_a_consumer_group,
    test_a_regular_expression_is_shown_as_the_subscription,
    test_groups_are_listed_and_filtered_by_type_and_state,
    test_it_is_shown_which_member_waits_for_which,
    test_offsets_are_reset_and_deleted_only_while_a_group_of_either_kind_is_empty,
)

__all__ = [
    "join",
    "orders",
    "run",
    "test_a_classic_group_has_a_paragraph_for_each_member_too",
    "test_a_consumer_group_is_described_with_all_that_its_coordinator_knows",
    "test_a_group_whose_members_speak_both_protocols_is_a_consumer_group",
    "test_a_regular_expression_is_shown_as_the_subscription",
    "test_groups_are_listed_and_filtered_by_type_and_state",
    "test_it_is_shown_which_member_waits_for_which",
    "test_offsets_are_reset_and_deleted_only_while_a_group_of_either_kind_is_empty",
]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftProcess]:
    kafka_jars(NEWEST_APACHE_KAFKA)
    with KRaftProcess(tmp_path_factory.mktemp("group-commands"), SETTINGS) as made:
        yield made


def test_a_broker_that_keeps_no_history_says_so(run: Run) -> None:
    assert "keeps no history of rebalances: it is an older Sordini, or another broker" in run("history", "g", code=1)


def test_a_group_that_does_not_exist_is_reported(broker: KRaftProcess, run: Run) -> None:
    assert "does not exist" in run("describe", "none", code=1)
    assert "there is no such group" in run("delete", "none", "--yes", code=1)
    assert run_here(broker.bootstrap, "groups", "list", "--type", "nothing").stdout == ""
