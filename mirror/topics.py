"""Topics of the target that copies go to: created, given more partitions, and configured as those of the source are.

Of an existing topic nothing else is touched: neither its replicas nor its access control entries nor quotas. A topic
whose creation is refused is left out, with a notice; the others are copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.client.errors import Refused, check
from sordini.mirror.cluster import Cluster
from sordini.mirror.internal_topics import create_topic
from sordini.mirror.naming import Names, Selection, is_copied
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.types import NO_TOPIC_ID, TopicId, topic_id_text
from sordini.system.named_tuple import NamedTuple

_TOPIC: Final = 2
"""The type of a topic among the resources that have settings."""
_OF_THE_TOPIC: Final = 1
"""The source of a setting that was set for the topic itself."""
_SET: Final = 0
_DELETE: Final = 1
_TIMEOUT_MS: Final = 30_000


class Topic(NamedTuple):
    """A topic of the source that is copied."""

    name: str
    topic_id: str
    """Empty where the source has no topic ids."""
    partitions: int


class TopicSync:
    """Keeps the target's topics as those of one source."""

    def __init__(
        self, source: Cluster, target: Cluster, names: Names, selection: Selection, notice: Callable[[str], None]
    ) -> None:
        self._source = source
        self._target = target
        self._names = names
        self._selection = selection
        self._notice = notice
        self._refused: dict[str, str] = {}

    async def sync(self, replication_factor: int, excluded_configs: Iterable[re.Pattern[str]] | None) -> list[Topic]:
        """Create and grow what is needed; the topics that can be copied. No settings with None. Raises ClientError."""
        wanted = await self._offered()
        remote = {self._names.remote_topic(topic.name): topic for topic in wanted}
        counts = await self._counts(remote)
        configs: Mapping[str, Mapping[str, str]] = {}
        if excluded_configs is not None:
            configs = await _configs(self._source, [topic.name for topic in wanted], excluded_configs)
        ready = []
        for name, topic in remote.items():
            try:
                await self._make(name, topic, counts.get(name, 0), replication_factor, configs.get(topic.name, {}))
            except Refused as refused:
                if self._refused.get(name) != str(refused):
                    self._notice(f"topic '{topic.name}' of '{self._names.source}' is not copied: {refused}")
                self._refused[name] = str(refused)
            else:
                self._refused.pop(name, None)
                ready.append(topic)
        if excluded_configs is not None:
            existing = {name: remote[name] for name in counts if remote[name] in ready}
            await self._configure(existing, configs, excluded_configs)
        return ready

    def is_refused(self, topic: str) -> bool:
        """Whether a topic of the source is left out because the target refused it, which was noticed."""
        return self._names.remote_topic(topic) in self._refused

    async def _offered(self) -> list[Topic]:
        """What the source has of what the patterns select. One that is being created has no partitions yet."""
        found = []
        for topic in (await self._source.metadata(None)).topics:
            name = topic.name or ""
            if topic.is_internal or topic.error_code or not is_copied(name, self._names, self._selection):
                continue
            topic_id = "" if topic.topic_id == NO_TOPIC_ID else topic_id_text(TopicId(topic.topic_id))
            found.append(Topic(name, topic_id, len(topic.partitions)))
        return found

    async def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of the topics that the target has."""
        counts = {}
        for topic in (await self._target.metadata(topics)).topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                counts[topic.name or ""] = len(topic.partitions)
        return counts

    async def _make(self, name: str, topic: Topic, count: int, factor: int, configs: Mapping[str, str]) -> None:
        if not count:
            await create_topic(self._target, name, topic.partitions, factor, configs)
        elif count < topic.partitions:
            await self._grow(name, topic.partitions)

    async def _grow(self, name: str, count: int) -> None:
        row = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[row], timeout_ms=_TIMEOUT_MS)

        async def attempt() -> None:
            response = await (await self._target.controller()).ask(request)
            for result in response.results:
                check(f"adding partitions to '{name}' in the target", result.error_code, result.error_message)

        await self._target.retry(attempt)

    async def _configure(
        self,
        topics: Mapping[str, Topic],
        wanted: Mapping[str, Mapping[str, str]],
        excluded: Iterable[re.Pattern[str]],
    ) -> None:
        """Set what is set in the source, and take back what is set in the target alone."""
        if not topics:
            return
        link = await self._target.controller()
        if not link.serves(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            self._once("settings are not followed: the target does not serve IncrementalAlterConfigs requests")
            return
        present = await _configs(self._target, list(topics), excluded)
        resources = []
        for name, topic in topics.items():
            changes = _changes(present.get(name, {}), wanted.get(topic.name, {}))
            if changes:
                resources.append(AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=changes))
        if not resources:
            return
        response = await link.ask(IncrementalAlterConfigsRequest(resources=resources))
        for row in response.responses:
            if row.error_code:
                reason = str(Refused(f"settings of '{row.resource_name}'", row.error_code, row.error_message))
                self._once(f"{reason}: they are not followed")

    def _once(self, problem: str) -> None:
        if problem not in self._refused:
            self._refused[problem] = problem
            self._notice(problem)


def _changes(present: Mapping[str, str], wanted: Mapping[str, str]) -> list[AlterableConfig]:
    changes = [
        AlterableConfig(name=name, config_operation=_SET, value=value)
        for name, value in wanted.items()
        if present.get(name) != value
    ]
    gone = [name for name in present if name not in wanted]
    return changes + [AlterableConfig(name=name, config_operation=_DELETE, value=None) for name in gone]


async def _configs(
    cluster: Cluster, topics: Iterable[str], excluded: Iterable[re.Pattern[str]]
) -> dict[str, dict[str, str]]:
    """What is set for each topic itself. Raises ClientError."""
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=None) for topic in topics
    ]
    if not resources:
        return {}
    link = await cluster.any_broker()
    # The first that distinguishes the topic's own settings from the broker's (KIP-226); without it none are known.
    if not link.serves(ApiKey.DESCRIBE_CONFIGS, 1):
        return {}
    response = await link.ask(DescribeConfigsRequest(resources=resources), at_least=1)
    return {
        result.resource_name: {
            row.name: row.value
            for row in result.configs
            if row.config_source == _OF_THE_TOPIC and row.value is not None and not _is_excluded(row.name, excluded)
        }
        for result in response.results
        if not result.error_code
    }


def _is_excluded(name: str, excluded: Iterable[re.Pattern[str]]) -> bool:
    return any(pattern.fullmatch(name) for pattern in excluded)
