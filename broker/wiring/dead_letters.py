"""How the dead letters of share groups reach their topics."""

from __future__ import annotations

from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.share_group_configs import ShareGroupLimits
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.coordinators.ports import Ports
from sordini.broker.records.jobs.queue import JobQueue
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.shares.dead_letters.dead_letter_appends import DeadLetterAppends
from sordini.broker.shares.dead_letters.dead_letter_topics import DeadLetterSettings, DeadLetterTopics
from sordini.broker.shares.dead_letters.dead_letter_writer import DeadLetterPorts, DeadLetterWriter
from sordini.broker.shares.dead_letters.original_records import OriginalRecords
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.types import BrokerId
from sordini.replication.ports import BrokerLinks
from sordini.system.named_tuple import NamedTuple


class DeadLetterParts(NamedTuple):
    """The writer, and its connections to other brokers."""

    writer: DeadLetterWriter
    appends: DeadLetterAppends


class DeadLetterDeps(NamedTuple):
    """By what topics are checked and created, and reached."""

    dynamic: DynamicConfig
    topics: TopicConfigs
    groups: ShareGroupLimits
    admin: TopicAdmin
    links: BrokerLinks

    def settings(self, group_id: str) -> DeadLetterSettings:
        """Those of a group now."""
        group, broker = self.groups.of(group_id), self.dynamic.config
        return DeadLetterSettings(
            group.dead_letter_topic,
            group.copies_dead_letters,
            broker.dead_letter_topic_prefix,
            broker.dead_letter_topics_are_created,
        )


def wire_dead_letters(
    this_broker: BrokerId,
    deps: DeadLetterDeps,
    leaders: KnownLeaders,
    jobs: JobQueue,
    ports: Ports,
) -> DeadLetterParts:
    """Build the writer; it connects when there are dead letters for another broker."""
    topics = DeadLetterTopics(deps.settings, leaders.metadata, deps.topics, deps.admin)
    appends = DeadLetterAppends(this_broker, leaders.replicas, leaders.metadata, deps.links, ports)
    return DeadLetterParts(DeadLetterWriter(DeadLetterPorts(topics, OriginalRecords(jobs), appends), ports), appends)
