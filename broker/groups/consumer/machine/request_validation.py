"""What a heartbeat must say, whatever group it is for. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sordini.broker.groups.consumer.machine.state import JOIN_EPOCH, LEAVE_EPOCH, NO_TIMEOUT, STATIC_LEAVE_EPOCH
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

NAMES_MAX: Final = 10_000
"""Topics in one subscription: each is looked at several times in one go. A regular expression may match more."""
FIRST_WITH_MEMBER_IDS = 1
"""The first version in which members make their ids themselves."""


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raises BrokerError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, with Apache Kafka's message."""
    epoch = request.member_epoch
    if version >= FIRST_WITH_MEMBER_IDS or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    count = len(request.subscribed_topic_names or ())
    if count > NAMES_MAX:
        raise _invalid(f"SubscribedTopicNames has {count}: {NAMES_MAX} are allowed.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_text(text: str | None, field: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{field} can't be empty.")


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
