"""Which requests a rule is for, and which topics and partitions of them. Pure.

Which of several rules acts is decided by `Script.take` (script.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.system.named_tuple import NamedTuple
from sordini.testing.faults.mentions import (
    NameOf,
    assignors_of,
    groups_of,
    member_ids_of,
    partition_field,
    partition_index,
    topic_name,
    topics_of,
    transactional_ids_of,
)


class TopicRows(NamedTuple):
    """Where a request names topics, and where its response has a row for each."""

    request: str
    response: str


TOPIC_ROWS: Final = {
    ApiKey.PRODUCE: TopicRows("topic_data", "responses"),
    ApiKey.FETCH: TopicRows("topics", "responses"),
    ApiKey.LIST_OFFSETS: TopicRows("topics", "topics"),
    ApiKey.METADATA: TopicRows("topics", "topics"),
    ApiKey.OFFSET_COMMIT: TopicRows("topics", "topics"),
    ApiKey.CREATE_TOPICS: TopicRows("topics", "topics"),
    ApiKey.DELETE_RECORDS: TopicRows("topics", "topics"),
    ApiKey.CREATE_PARTITIONS: TopicRows("topics", "results"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: TopicRows("topics", "topics"),
    ApiKey.TXN_OFFSET_COMMIT: TopicRows("topics", "topics"),
}
"""APIs whose topics can fail one by one. Others fail as a whole."""


class Selection(NamedTuple):
    """What a rule is for; None is any."""

    api: ApiKey
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    member_id: str | None = None
    assignor: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    broker: int | None = None
    when: Callable[[Any], bool] | None = None
    """Asked of the request's message, by the rule."""

    @property
    def given(self) -> dict[str, Any]:
        """What requests are selected by, beside the API and `when`."""
        return {name: value for name, value in zip(self._fields[1:-1], self[1:-1], strict=True) if value is not None}

    def text(self) -> str:
        """As it is shown: `Produce of topic orders`."""
        from sordini.testing.faults.names import api_text

        named = [f"{name.replace('_', ' ')} {value}" for name, value in self.given.items()]
        return " of ".join([api_text(self.api), ", ".join(named)] if named else [api_text(self.api)])

    def is_for(self, api: ApiKey, body: Any, client_id: str | None, broker: int, name_of: NameOf) -> bool:
        """Whether a request is selected, with all its topics or with some; `when` is not asked."""
        if api is not self.api or (self.broker is not None and broker != self.broker):
            return False
        if self.client_id is not None and client_id != self.client_id:
            return False
        if self.group is not None and self.group not in groups_of(body):
            return False
        if self.member_id is not None and self.member_id not in member_ids_of(body):
            return False
        if self.assignor is not None and self.assignor not in assignors_of(body):
            return False
        if self.transactional_id is not None and self.transactional_id not in transactional_ids_of(body):
            return False
        return not self.is_of_topics or any(self._has(topic, name_of) for topic in topics_of(body))

    @property
    def is_of_topics(self) -> bool:
        """Whether it is for some topics or partitions of a request."""
        return self.topic is not None or self.partition is not None

    def split(self, elements: list[Any], name_of: NameOf) -> tuple[list[Any], list[Any]]:
        """A request's topics: those that are not selected, and those that are. A topic may be in both, with some of
        its partitions each.
        """
        others: list[Any] = []
        selected: list[Any] = []
        for topic in elements:
            if not self._has(topic, name_of):
                others.append(topic)
                continue
            field = partition_field(topic)
            if self.partition is None or field is None:
                selected.append(topic)
                continue
            rows = getattr(topic, field)
            mine = [row for row in rows if partition_index(row) == self.partition]
            rest = [row for row in rows if partition_index(row) != self.partition]
            selected.append(_with(topic, field, mine))
            if rest:
                others.append(_with(topic, field, rest))
        return others, selected

    def _has(self, topic: Any, name_of: NameOf) -> bool:
        if self.topic is not None and topic_name(topic, name_of) != self.topic:
            return False
        if self.partition is None:
            return True
        field = partition_field(topic)
        return field is None or any(partition_index(row) == self.partition for row in getattr(topic, field))


def _with(topic: Any, field: str, rows: list[Any]) -> Any:
    part = copy.copy(topic)
    setattr(part, field, rows)
    return part
