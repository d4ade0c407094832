"""DescribeGroupHistory: the last rebalances of a group. Sordini's own request, for `sordini groups history`."""

from __future__ import annotations

from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine.rebalance_history import MemberEntry, Rebalance
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_group
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    PartitionMoveRow,
    RebalanceCauseRow,
    RebalanceMemberRow,
    RebalanceRow,
)
from sordini.replication.metadata_store.acl_model import AclOperation


class GroupHistoryHandler:
    """Answers from what the coordinator remembers."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_GROUP_HISTORY, self.describe, self.error_response, on_group(AclOperation.DESCRIBE))

    def describe(self, call: Call) -> Work[DescribeGroupHistoryResponse]:
        request: DescribeGroupHistoryRequest = call.body
        try:
            since_ms, rebalances = self._groups.rebalances_of(request.group_id)
        except BrokerError as error:
            return self.error_response(request, error.code)
        limit = request.rebalances_max
        response = DescribeGroupHistoryResponse(
            group_id=request.group_id,
            since_at_ms=since_ms,
            remembered_max=self._groups.rebalances.entries_max,
        )
        for rebalance in rebalances if limit < 0 else rebalances[len(rebalances) - min(limit, len(rebalances)) :]:
            response.rebalances.append(_row(rebalance))
            yield 1 + len(rebalance.causes) + len(rebalance.members) + len(rebalance.moves)
        return response

    @staticmethod
    def error_response(request: DescribeGroupHistoryRequest, code: ErrorCode) -> DescribeGroupHistoryResponse:
        message = "there is no such group" if code == ErrorCode.GROUP_ID_NOT_FOUND else None
        return DescribeGroupHistoryResponse(error_code=code, error_message=message, group_id=request.group_id)


def _row(rebalance: Rebalance) -> RebalanceRow:
    return RebalanceRow(
        began_at_ms=rebalance.began_ms,
        ended_at_ms=rebalance.ended_ms,
        duration_ms=rebalance.duration_ms,
        generation_before=rebalance.generation_before,
        generation_after=rebalance.generation_after,
        protocol_name=rebalance.protocol_name,
        causes=[
            RebalanceCauseRow(
                cause=entry.cause,
                at_ms=entry.at_ms,
                member_id=entry.member.member_id,
                group_instance_id=entry.member.group_instance_id,
                client_id=entry.member.client_id,
                client_host=entry.member.client_host,
                detail=entry.detail,
            )
            for entry in rebalance.causes
        ],
        causes_omitted=rebalance.causes_omitted,
        members=[_member_row(entry) for entry in rebalance.members],
        members_omitted=rebalance.members_omitted,
        partitions_known=rebalance.partitions_known,
        moves=[
            PartitionMoveRow(
                topic=move.topic,
                partition=move.partition,
                source=move.source,
                target=move.target,
                released_at_ms=move.released_ms,
                without_owner_ms=move.without_owner_ms,
            )
            for move in rebalance.moves
        ],
        moves_omitted=rebalance.moves_omitted,
        is_consumer=rebalance.is_consumer or rebalance.is_share,
        is_overtaken=rebalance.is_overtaken,
        is_share=rebalance.is_share,
    )


def _member_row(entry: MemberEntry) -> RebalanceMemberRow:
    return RebalanceMemberRow(
        member_id=entry.member.member_id,
        group_instance_id=entry.member.group_instance_id,
        client_id=entry.member.client_id,
        client_host=entry.member.client_host,
        partitions=entry.partitions,
        waited_ms=entry.waited_ms,
    )
