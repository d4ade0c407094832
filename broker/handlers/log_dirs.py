"""DescribeLogDirs: what lies in each log directory, how large it is, and how much room is left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sordini.broker.dispatch import Call, Route
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.storage.log import Log
from sordini.storage.log_manager import DirectorySurvey, LogManager

BYTES_UNKNOWN = -1


class LogDirsHandler:
    """Asks the store."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_LOG_DIRS, self.handle, self.refuse)

    def handle(self, call: Call) -> DescribeLogDirsResponse:
        request: DescribeLogDirsRequest = call.body
        wanted = None
        if request.topics is not None:
            wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
        return DescribeLogDirsResponse(results=[_result(survey, wanted) for survey in self._logs.surveys()])

    @staticmethod
    def refuse(_request: DescribeLogDirsRequest, code: ErrorCode) -> DescribeLogDirsResponse:
        return DescribeLogDirsResponse(error_code=code)


def _result(survey: DirectorySurvey, wanted: set[TopicPartition] | None) -> DescribeLogDirsResult:
    log_dir = str(Path(survey.path).absolute())
    if not survey.is_online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir)
    logs = survey.logs if wanted is None else [log for log in survey.logs if log.topic_partition in wanted]
    return DescribeLogDirsResult(
        log_dir=log_dir,
        topics=_topics(logs),
        total_bytes=BYTES_UNKNOWN if survey.total_bytes is None else survey.total_bytes,
        usable_bytes=BYTES_UNKNOWN if survey.usable_bytes is None else survey.usable_bytes,
    )


def _topics(logs: Iterable[Log]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in sorted(logs, key=lambda log: log.topic_partition):
        name, index = log.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        # A leader's own log is never behind the high watermark, and none is being copied between directories.
        topic.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=log.size))
    return list(topics.values())
