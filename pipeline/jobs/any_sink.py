"""What a job may write into: tables, and topics that take the same calls."""

from __future__ import annotations

from sordini.pipeline.jobs.topic_sink import TopicSink
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic
from sordini.pipeline.tables import Table

AnySink = Table | TopicSink | TransactionalTopic
