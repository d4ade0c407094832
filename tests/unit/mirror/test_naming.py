"""Names of copied and internal topics, and which topics are copied."""

from __future__ import annotations

import re

import pytest

from sordini.mirror.naming import Names, Naming, Selection, is_copied, is_internal

PREFIXED = Names("east", "central")
MERGED = Names("east", "central", Naming.MERGE)
ALL = Selection([re.compile(".*")])


def test_a_copied_topic_has_the_source_s_alias_in_front() -> None:
    assert PREFIXED.remote_topic("orders") == "east.orders"
    assert Names("east", "central", separator="_").remote_topic("orders") == "east_orders"


def test_a_merged_topic_keeps_its_name_and_heartbeats_do_not() -> None:
    assert MERGED.remote_topic("orders") == "orders"
    assert MERGED.remote_topic("heartbeats") == "east.heartbeats"


@pytest.mark.parametrize("topic", ["central.orders", "west.central.orders", "central.heartbeats"])
def test_a_topic_that_came_from_the_target_is_not_copied_back(topic: str) -> None:
    assert not is_copied(topic, PREFIXED, ALL)


@pytest.mark.parametrize("topic", ["orders", "west.orders", "centralized.orders", "orders.central"])
def test_a_topic_of_the_source_or_of_a_third_cluster_is_copied(topic: str) -> None:
    assert is_copied(topic, PREFIXED, ALL)


def test_merged_heartbeats_that_came_from_the_target_are_not_copied_back() -> None:
    assert not is_copied("central.heartbeats", MERGED, ALL)
    assert is_copied("central.orders", MERGED, ALL)


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "mm2-offsets.west.internal",
        "mm2-offset-syncs.west.internal",
        "west.checkpoints.internal",
        "connect-internal",
        ".hidden",
    ],
)
def test_internal_topics_are_never_copied(topic: str) -> None:
    assert is_internal(topic)
    assert not is_copied(topic, PREFIXED, ALL)


def test_all_of_a_name_must_match_a_pattern_and_none_of_the_excluded() -> None:
    chosen = Selection([re.compile("orders"), re.compile("click.*")], [re.compile(".*-test")])
    assert chosen.has("orders")
    assert chosen.has("clicks")
    assert not chosen.has("orders-2")
    assert not chosen.has("clicks-test")


def test_heartbeats_are_copied_whatever_the_patterns_say() -> None:
    assert is_copied("heartbeats", PREFIXED, Selection([re.compile("orders")]))


def test_internal_topics_have_mirrormaker_2_s_names() -> None:
    assert PREFIXED.positions_topic == "mm2-offsets.east.internal"
    assert PREFIXED.checkpoints_topic == "east.checkpoints.internal"
    assert PREFIXED.offset_syncs_topic(in_source=True) == "mm2-offset-syncs.central.internal"
    assert PREFIXED.offset_syncs_topic(in_source=False) == "mm2-offset-syncs.east.internal"
