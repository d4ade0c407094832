"""Paths in the coordination store that are made of names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store import paths

OF_A_TOPIC: tuple[Callable[[str], str], ...] = (
    paths.topic,
    paths.partitions,
    paths.topic_config,
    paths.topic_entity,
    paths.delete_topic,
    lambda name: paths.partition(TopicPartition(name, 0)),
    lambda name: paths.state(TopicPartition(name, 0)),
)


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/b", "../ids/1", "a\0"])
def test_a_name_that_is_not_one_step_of_a_path_makes_none(name: str) -> None:
    for path_of in OF_A_TOPIC:
        with pytest.raises(BrokerError) as refused:
            path_of(name)
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["orders", "a.b_c-d", "..a", "made by another tool"])
def test_any_other_name_is_one_step_of_each_path(name: str) -> None:
    for path_of in OF_A_TOPIC:
        assert name in path_of(name).split("/")
