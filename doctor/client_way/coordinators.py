"""The coordinators of groups, transactions and share groups: those that exist, and whether they could be created.

FindCoordinator creates the internal topic. So it is sent only where the topic exists, or where writing is allowed;
otherwise the broker's settings say whether the topic could be created, and written. Share coordinators are found by
brokers alone: of theirs, only settings and the topic are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sordini.broker.cluster.health_keys import SERVING
from sordini.client.addresses import Address
from sordini.client.cluster import Cluster, Link
from sordini.client.errors import ClientError, Refused
from sordini.doctor.client_way.cluster_state import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TOPIC_KEYS,
    InternalTopic,
    min_isr_too_high,
    no_coordinator,
    replication_too_high,
    topic_findings,
)
from sordini.doctor.findings import Report
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from sordini.protocol.printable import counted

STEP = "coordinators"
NAME = "sordini-doctor"
_TOPIC, _BROKER = 2, 4
"""The resource types in DescribeConfigs."""
DENIED: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Whether there is a coordinator is not shown without a right to the group; that is no fault of the cluster."""
_ZOOKEEPER = "zookeeper.connect"


async def check_coordinators(
    cluster: Cluster, found: MetadataResponse, at: str, report: Report, *, may_write: bool
) -> None:
    """All kinds."""
    topics = {topic.name: topic for topic in found.topics}
    for one in INTERNAL_TOPICS:
        topic, is_share = topics.get(one.topic), one.topic == SHARE_STATE_TOPIC
        broker = cluster.cluster_map.addresses[found.brokers[0].node_id]
        if not is_share and (topic is not None or may_write):
            await _find(cluster, one, at, report)
        elif is_share and not await _has_share_groups(cluster, broker):
            report.skipped(STEP, f"{one.clients}: this cluster has no share groups")
        elif topic is None:
            await _check_settings(cluster, one, found, at, report)
        if topic is not None:
            await _check_topic(cluster, one, topic, broker, report)


async def _find(cluster: Cluster, one: InternalTopic, at: str, report: Report) -> None:
    async def attempt() -> Link:
        if one.topic == OFFSETS_TOPIC:
            return await cluster.coordinator(NAME)
        return await cluster.transaction_coordinator(NAME)

    try:
        link = await cluster.retry(attempt)
    except Refused as error:
        if error.code in DENIED:
            report.skipped(STEP, f"{one.clients}: not shown to this client ({error.code.name})")
        else:
            report.found(STEP, f"{one.clients}: {error}", no_coordinator(one, str(error), at))
    except ClientError as error:
        report.found(STEP, f"{one.clients}: {error}", no_coordinator(one, str(error), at))
    else:
        report.ok(STEP, f"{one.clients}: {link.address}")


async def _check_settings(
    cluster: Cluster, one: InternalTopic, found: MetadataResponse, at: str, report: Report
) -> None:
    """The topic does not exist: nothing is created, and settings are read where that is allowed."""
    values = await _broker_values(cluster, one, found.brokers[0].node_id)
    replicas, min_isr = _number(values, one.key), _number(values, one.min_isr_key)
    findings = []
    if replicas is not None:
        findings.append(replication_too_high(one, replicas, len(found.brokers), at))
    if SERVING not in values and replicas is not None and min_isr is not None and findings == [None]:
        # Sordini requires no more in-sync replicas of an internal topic than it creates.
        findings.append(min_isr_too_high(one, min_isr, replicas, at))
    wrong = [finding for finding in findings if finding is not None]
    for finding in wrong:
        key, value = finding.facts["key"], finding.facts["value"]
        report.found(STEP, f"{key} is {value}, with {counted(len(found.brokers), 'broker')}", finding)
    if not wrong and one.topic == SHARE_STATE_TOPIC:
        report.skipped(STEP, f"{one.clients}: there has been none yet")
    elif not wrong:
        report.skipped(STEP, f"{one.clients}: none was requested yet, and without --write none is")


async def _check_topic(
    cluster: Cluster, one: InternalTopic, topic: MetadataResponseTopic, broker: Address, report: Report
) -> None:
    """The topic exists: what its settings do to it. Nothing is said where they are not shown."""
    values = await _values(cluster, broker, _TOPIC, one.topic, TOPIC_KEYS)
    findings = topic_findings(one, topic.partitions, values, str(broker))
    for finding in findings:
        report.found(STEP, f"{finding.facts['key']} of {one.topic} is {finding.facts['value']}", finding)
    if not findings and values:
        report.ok(STEP, f"{one.topic}: {counted(len(topic.partitions), 'partition')}, written and kept")


async def _broker_values(cluster: Cluster, one: InternalTopic, broker: int) -> Mapping[str, str]:
    """A broker's settings; none where they cannot be read, or are no lower bounds."""
    keys = [one.key, one.min_isr_key, SERVING, _ZOOKEEPER]
    address = cluster.cluster_map.addresses[broker]
    values = await _values(cluster, address, _BROKER, str(broker), keys)
    if SERVING in values and not values.get(_ZOOKEEPER):
        return {}  # Sordini with its embedded store makes as many replicas as there are brokers.
    return values


async def _has_share_groups(cluster: Cluster, broker: Address) -> bool:
    try:
        link = await cluster.known(broker)
    except ClientError:
        return False
    return link.serves(ApiKey.SHARE_GROUP_HEARTBEAT)


async def _values(cluster: Cluster, address: Address, kind: int, name: str, keys: Sequence[str]) -> dict[str, str]:
    """Settings of a resource, as far as they are shown to this client."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    try:
        link = await cluster.known(address)
        response: DescribeConfigsResponse = await link.ask(DescribeConfigsRequest(resources=[resource]))
    except ClientError:
        return {}
    return {row.name: row.value or "" for result in response.results for row in result.configs}


def _number(values: Mapping[str, str], key: str) -> int | None:
    value = values.get(key, "")
    return int(value) if value.isdecimal() else None
