"""`sordini share` before Apache Kafka 4.4: the situations of our own broker, and what only ours tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_jars
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.process.test_share_commands import (
    SETTINGS,
    Run,
    group_of,
    orders,
    run,
    test_a_reset_creates_a_group_and_says_so,
    test_a_share_group_is_described_with_its_members_and_what_is_not_done,
    test_groups_of_other_kinds_are_named_as_what_they_are,
    test_offsets_are_reset_and_deleted_only_while_the_group_is_empty,
    test_share_groups_are_listed_by_both_commands,
    work,
)

__all__ = [
    "orders",
    "run",
    "test_a_reset_creates_a_group_and_says_so",
    "test_a_share_group_is_described_with_its_members_and_what_is_not_done",
    "test_groups_of_other_kinds_are_named_as_what_they_are",
    "test_offsets_are_reset_and_deleted_only_while_the_group_is_empty",
    "test_share_groups_are_listed_by_both_commands",
    "work",
]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftProcess]:
    kafka_jars(NEWEST_APACHE_KAFKA)
    with KRaftProcess(tmp_path_factory.mktemp("share-commands"), SETTINGS) as made:
        yield made


def test_records_in_flight_are_not_described(run: Run, orders: str) -> None:
    run("share", "reset", group_of(orders), "--topic", orders, "--to-earliest", "--execute")
    assert "does not tell what is in flight" in run("share", "in-flight", group_of(orders), code=1)
