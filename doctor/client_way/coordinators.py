"""The coordinators of groups and of transactions: those that exist, and whether they could be created.

FindCoordinator creates the internal topic. So it is sent only where the topic exists, or where writing is allowed;
otherwise the broker's setting says whether the topic could be created.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.cluster.health_keys import SERVING
from sordini.client.cluster import Cluster, Link
from sordini.client.errors import ClientError, Refused
from sordini.doctor.client_way.cluster_state import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    InternalTopic,
    no_coordinator,
    replication_too_high,
)
from sordini.doctor.findings import Report
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.printable import counted

STEP = "coordinators"
NAME = "sordini-doctor"
_BROKER = 4
"""The resource type in DescribeConfigs."""
DENIED: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Whether there is a coordinator is not shown without a right to the group; that is no fault of the cluster."""
_ZOOKEEPER = "zookeeper.connect"


async def check_coordinators(
    cluster: Cluster, found: MetadataResponse, at: str, report: Report, *, may_write: bool
) -> None:
    """Both kinds."""
    topics = {topic.name for topic in found.topics}
    for one in INTERNAL_TOPICS:
        if one.topic in topics or may_write:
            await _find(cluster, one, at, report)
        else:
            await _check_setting(cluster, one, found, at, report)


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


async def _check_setting(
    cluster: Cluster, one: InternalTopic, found: MetadataResponse, at: str, report: Report
) -> None:
    """The topic does not exist: nothing is created, and the setting is read where that is allowed."""
    value = await _setting(cluster, one.key, found.brokers[0].node_id)
    finding = None if value is None else replication_too_high(one, value, len(found.brokers), at)
    if finding is not None:
        report.found(STEP, f"{one.key} is {value}, with {counted(len(found.brokers), 'broker')}", finding)
    else:
        report.skipped(STEP, f"{one.clients}: none was requested yet, and without --write none is")


async def _setting(cluster: Cluster, key: str, broker: int) -> int | None:
    """A broker's setting; None where it cannot be read, or is no lower bound."""
    names = [key, SERVING, _ZOOKEEPER]
    resource = DescribeConfigsResource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=names)
    try:
        link = await cluster.known(cluster.cluster_map.addresses[broker])
        response: DescribeConfigsResponse = await link.ask(DescribeConfigsRequest(resources=[resource]))
    except ClientError:
        return None
    values = {row.name: row.value or "" for result in response.results for row in result.configs}
    if SERVING in values and not values.get(_ZOOKEEPER):
        return None  # Sordini with its embedded store makes as many replicas as there are brokers.
    value = values.get(key, "")
    return int(value) if value.isdecimal() else None
