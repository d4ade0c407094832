"""Share groups of a cluster, as the kit's own client asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sordini.admin.shares.in_flight import InFlightPartition, in_flight_request, partitions_in
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from sordini.protocol.types import TopicPartition
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient
from sordini.testing.share_group_state import (
    ShareGroupState,
    SharePartitionOffsets,
    share_group,
    share_group_that_is_not_there,
)

RUNS_MAX: Final = 10_000
GROUP: Final = 32
SET: Final = 0


class ShareGroups:
    """Requests to the coordinators of share groups, and to the leaders of their partitions."""

    def __init__(self, client: OwnClient) -> None:
        self._client = client

    def describe(self, group: str) -> ShareGroupState:
        """A share group and its members. Raises KitError."""
        found = self._asked(group, lambda: ShareGroupDescribeRequest(group_ids=[group]))
        return share_group_that_is_not_there(group) if found is None else share_group(found)

    def configure(self, group: str, config: Mapping[str, str]) -> None:
        """Set settings of a group. Raises KitError."""
        rows = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in config.items()]
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=rows)
        (row,) = self._client.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
        if row.error_code:
            raise KitError(f"share group {group!r}: {row.error_message or ErrorCode(row.error_code).name}")

    def offsets(self, group: str) -> dict[tuple[str, int], SharePartitionOffsets]:
        """Its partitions; none of a group that does not exist. Raises KitError."""
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        found = self._asked(group, lambda: DescribeShareGroupOffsetsRequest(groups=[wanted]))
        return {
            (topic.topic_name, row.partition_index): SharePartitionOffsets(_known(row.start_offset), _known(row.lag))
            for topic in (() if found is None else found.topics)
            for row in topic.partitions
            if not row.error_code
        }

    def in_flight(self, group: str, partitions: Iterable[TopicPartition]) -> list[InFlightPartition]:
        """What is in flight of these partitions. Raises KitError."""
        found = []
        for partition in sorted(partitions):
            request = in_flight_request(group, [partition], RUNS_MAX)

            def fetched(partition: TopicPartition = partition, request: Any = request) -> Any:
                answer = self._client.ask(request, self._client.leader(*partition))
                code = answer.error_code or answer.topics[0].partitions[0].error_code
                if code in TEMPORARY:
                    return None
                if code:
                    raise KitError(f"{partition} of share group {group!r}: {ErrorCode(code).name}")
                return answer

            found += partitions_in(
                self._client.wait(fetched, f"{partition} tells what is in flight of share group {group!r}")
            )
        return found

    def wait(self, find: Callable[[], Any], what: str, timeout_s: float) -> Any:
        """As `OwnClient.wait`."""
        return self._client.wait(find, what, timeout_s)

    def _asked(self, group: str, request: Callable[[], Any]) -> Any:
        """The row of the group in a response; None if there is no such group."""

        def asked() -> Any:
            row = self._client.ask(request(), self._client.coordinator(group)).groups[0]
            return None if row.error_code in TEMPORARY else row

        row = self._client.wait(asked, f"share group {group!r} can be described")
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        if row.error_code:
            raise KitError(f"share group {group!r}: {ErrorCode(row.error_code).name}")
        return row


def _known(number: int) -> int | None:
    return None if number < 0 else number
