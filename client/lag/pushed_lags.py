"""Steps to what consumers say of their own lag, where brokers of Sordini take metrics of clients (KIP-714). Pure.

A consumer's lag is what it has not fetched, so it is smaller than the group's by what is fetched and not committed.
Java's clients push it for each of their partitions, librdkafka's push none. A client pushes to any broker, so all are
asked; one without client telemetry, or that does not allow it, has nothing to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sordini.client.errors import ClientError
from sordini.client.lag.asking import Ask, Rounds
from sordini.client.lag.coordinators import Group
from sordini.client.lag.model import ClientLag
from sordini.protocol.messages.describe_client_instances import DescribeClientInstancesRequest
from sordini.protocol.types import TopicPartition

RECORDS_LAG: Final = "org.apache.kafka.consumer.fetch.manager.records.lag"
OF_GROUPS: Final = 1
"""The first version of DescribeClientInstances that selects the members of a group."""
PAGE: Final = 500
GROUPS_MAX: Final = 10
"""Of one snapshot; of those behind, nothing is asked."""


def read_pushed(groups: Sequence[Group], brokers: Iterable[int], now_ms: int) -> Rounds[None]:
    """Fill in what members say of the partitions that they have. `now_ms` is the wall clock."""
    with_members = [group for group in groups if group.owners][:GROUPS_MAX]
    asked = [(group, broker, _request(group, None)) for group in with_members for broker in sorted(brokers)]
    while asked:  # Each page begins behind the last of the one before.
        answers = yield [Ask(broker, request, at_least=OF_GROUPS) for _, broker, request in asked]
        further = []
        for (group, broker, request), answer in zip(asked, answers, strict=True):
            if isinstance(answer, ClientError) or answer.error_code or not answer.instances:
                continue
            _take(group, answer.instances, now_ms)
            last = answer.instances[-1].client_instance_id
            if answer.has_more and last > request.after:
                further.append((group, broker, _request(group, last)))
        asked = further


def _request(group: Group, after: bytes | None) -> DescribeClientInstancesRequest:
    request = DescribeClientInstancesRequest(group_id=group.name, metric=RECORDS_LAG, instances_max=PAGE)
    if after is not None:
        request.after = after
    return request


def _take(group: Group, instances: Sequence[Any], now_ms: int) -> None:
    """Of a partition that went to another member only what the new one says; of two pushes the newer."""
    for instance in instances:
        for figure in instance.figures:
            labels = {label.key: label.value for label in figure.labels}
            for partition in _partitions(group, labels):
                owner, former = group.owners[partition], group.client_lags.get(partition)
                found = ClientLag(round(figure.value), max(0, now_ms - figure.at_ms))
                is_newer = former is None or former.pushed_ms_ago > found.pushed_ms_ago
                if owner.member_id == instance.group_member_id and is_newer:
                    group.client_lags[partition] = found


def _partitions(group: Group, labels: dict[str, str]) -> Iterator[TopicPartition]:
    """The partition that labels name, if a member has it; clients before 4.1 write `_` for the dots of a topic."""
    number = labels.get("partition", "")
    if not number.isdecimal() or len(number) > len(str(2**31)):
        return
    topic = labels.get("topic", "")
    named = TopicPartition(topic, int(number))
    if named in group.owners:
        yield named
        return
    yield from (
        owned for owned in group.owners if owned.partition == named.partition and owned.topic.replace(".", "_") == topic
    )
