"""DescribeLogDirs (the logs of each directory, their sizes and the free space) and AlterReplicaLogDirs.

Replicas are not moved between directories, so there are no future replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from sordini.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Logger
from sordini.storage.log import Log
from sordini.storage.log_manager import LogDirDescription, LogManager

BYTES_UNKNOWN = -1


class LogDirsHandler:
    """Serves both from the log manager."""

    def __init__(self, logs: LogManager, log: Logger) -> None:
        self._logs = logs
        self._log = log

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.DESCRIBE_LOG_DIRS, self.describe, self.describe_error_response, on_cluster(AclOperation.DESCRIBE)
            ),
            Route(ApiKey.ALTER_REPLICA_LOG_DIRS, self.alter, self.alter_error_response, on_cluster(AclOperation.ALTER)),
        ]

    def describe(self, call: Call) -> Work[DescribeLogDirsResponse]:
        request: DescribeLogDirsRequest = call.body
        wanted = None
        if request.topics is not None:
            wanted = set()
            for asked in request.topics:
                yield 1
                for index in asked.partitions:
                    wanted.add(TopicPartition(asked.topic, index))
                    yield 1
        response = DescribeLogDirsResponse()
        for survey in self._logs.describe_log_dirs():
            response.results.append((yield from _result(survey, wanted)))
        return response

    @staticmethod
    def describe_error_response(_request: DescribeLogDirsRequest, code: ErrorCode) -> DescribeLogDirsResponse:
        return DescribeLogDirsResponse(error_code=code)

    def alter(self, call: Call) -> Work[AlterReplicaLogDirsResponse]:
        request: AlterReplicaLogDirsRequest = call.body
        online = {_absolute(survey.path): survey.is_online for survey in self._logs.describe_log_dirs()}
        stay: list[TopicPartition] = []
        response = yield from _altered(request, lambda path, name: self._code_for(online, path, name, stay))
        if stay:  # One line for each request.
            self._log.warning(
                "replicas not moved",
                partitions=len(stay),
                first=str(stay[0]),
                reason="replicas are not moved between log directories while the broker runs",
            )
        return response

    def _code_for(
        self, online: Mapping[str, bool], path: str, name: TopicPartition, stay: list[TopicPartition]
    ) -> ErrorCode:
        """The error code for a partition that is to be in a directory; one that is in another is added to `stay`."""
        if path not in online:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not online[path]:
            return ErrorCode.KAFKA_STORAGE_ERROR
        held = self._logs.get(name)
        if held is None:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if _absolute(held.log_dir.path) == path:
            return ErrorCode.NONE
        stay.append(name)
        return ErrorCode.UNSUPPORTED_VERSION

    @staticmethod
    def alter_error_response(request: AlterReplicaLogDirsRequest, code: ErrorCode) -> AlterReplicaLogDirsResponse:
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        for wanted in (wanted for directory in request.dirs for wanted in directory.topics):
            topic = topics.setdefault(wanted.name, AlterReplicaLogDirTopicResult(topic_name=wanted.name))
            topic.partitions += [
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index in wanted.partitions
            ]
        return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _altered(
    request: AlterReplicaLogDirsRequest, code_of: Callable[[str, TopicPartition], ErrorCode]
) -> Work[AlterReplicaLogDirsResponse]:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        yield 1
        for wanted in directory.topics:
            topic = topics.setdefault(wanted.name, AlterReplicaLogDirTopicResult(topic_name=wanted.name))
            yield 1
            for index in wanted.partitions:
                code = code_of(directory.path, TopicPartition(wanted.name, index))
                topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
                yield 1
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _absolute(path: str) -> str:
    from pathlib import Path  # Late: a start does not need it.

    return str(Path(path).absolute())


def _result(survey: LogDirDescription, wanted: set[TopicPartition] | None) -> Work[DescribeLogDirsResult]:
    log_dir = _absolute(survey.path)
    if not survey.is_online:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir, is_cordoned=survey.is_cordoned
        )
    logs = survey.logs if wanted is None else [log for log in survey.logs if log.topic_partition in wanted]
    return DescribeLogDirsResult(
        log_dir=log_dir,
        topics=(yield from _topics(logs)),
        total_bytes=BYTES_UNKNOWN if survey.total_bytes is None else survey.total_bytes,
        usable_bytes=BYTES_UNKNOWN if survey.usable_bytes is None else survey.usable_bytes,
        is_cordoned=survey.is_cordoned,
    )


def _topics(logs: Iterable[Log]) -> Work[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in sorted(logs, key=lambda log: log.topic_partition):
        name, index = log.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        # Offset lag is 0: there are no future replicas.
        topic.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=log.size))
        yield 1
    return list(topics.values())
