"""A simple consumer that commits one offset after the other and fetches it each time."""

from __future__ import annotations

import time
from itertools import count
from typing import Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.cluster.loads import Worker
from tests.support.wire_client import Client

_RETRIABLE: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""Retriable errors; any other would reach the client's application."""
_PATIENCE_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 0.1


class Committer(Worker):
    """Commits rising offsets of one partition, none of which may be seen to fall."""

    def __init__(self, ports: list[int], group: str, topic: str) -> None:
        super().__init__()
        self._ports = ports
        self._group = group
        self._topic = topic
        self._least = -1
        self.acknowledged = 0
        """The last offset whose commit was granted."""
        self.violations: list[str] = []

    def work(self) -> None:
        offset = 0
        for attempt in count():
            if not self.is_going_on:
                return
            try:
                port = self._coordinator(self._ports[attempt % len(self._ports)])
                if port is not None:
                    with Client("127.0.0.1", port, _PATIENCE_SECONDS) as client:
                        offset = self._go_on(client, offset)
            except OSError:
                pass  # Killed, or gone before it answered: whether the last commit counts is not known.
            time.sleep(_RETRY_SECONDS)

    def _coordinator(self, port: int) -> int | None:
        with Client("127.0.0.1", port, _PATIENCE_SECONDS) as client:
            answer = client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=self._group))
        if answer.error_code:
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode(answer.error_code)
            return None
        found: int = answer.port
        return found

    def _go_on(self, client: Client, offset: int) -> int:
        """Look, then commit, for as long as this coordinator grants it; the last offset that was tried."""
        while self.is_going_on and self._finds_coordinator(client):
            offset += 1
            if not self._has_passed(self._commit(client, offset)):
                break
            self.acknowledged = self._least = offset
        return offset

    def _finds_coordinator(self, client: Client) -> bool:
        """Whether the coordinator returns its offset, which is never lower than one returned before."""
        seen, code = self._fetch(client)
        if not self._has_passed(code):
            return False
        if seen < self._least:
            self.violations.append(f"{self._group}: {seen} is returned after {self._least}")
        self._least = seen
        return True

    def _has_passed(self, code: int) -> bool:
        assert not code or code in _RETRIABLE, ErrorCode(code)
        return not code

    def _commit(self, client: Client, offset: int) -> int:
        commit = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name=self._topic, partitions=[commit])
        request = OffsetCommitRequest(group_id=self._group, topics=[topic])
        code: int = client.ask(ApiKey.OFFSET_COMMIT, 7, request).topics[0].partitions[0].error_code
        return code

    def _fetch(self, client: Client) -> tuple[int, int]:
        topic = OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])
        answer = client.ask(ApiKey.OFFSET_FETCH, 5, OffsetFetchRequest(group_id=self._group, topics=[topic]))
        if answer.error_code:
            return -1, answer.error_code
        reported: int = answer.topics[0].partitions[0].committed_offset
        return reported, 0
