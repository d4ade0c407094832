"""Which topics regular expressions match, among those that a peer may see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from sordini.broker.groups.consumer.machine.patterns.cursor import PatternError
from sordini.broker.groups.consumer.machine.state import ResolvedRegex
from sordini.broker.groups.consumer.machine.topic_patterns import TopicPatterns
from sordini.broker.network.ports import Peer
from sordini.broker.security.access import Access
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Clock

STEPS_PER_SLICE = 1_000
CHECKED_PER_SLICE = 200
"""Names that the authorizer is asked about before the loop serves other requests."""


class TopicResolver:
    """Looks at all topics of the cluster, in slices."""

    def __init__(self, metadata: MetadataCache, access: Access, clock: Clock, patterns: TopicPatterns) -> None:
        self._metadata = metadata
        self._access = access
        self._clock = clock
        self._patterns = patterns

    async def resolve(self, regexes: Iterable[str], peer: Peer) -> Mapping[str, ResolvedRegex]:
        """Every regular expression with its topics; one that is refused here (`topic_patterns.py`) has none."""
        names, version = list(self._metadata.topics), self._metadata.placement_epoch
        resolved = {}
        for regex in regexes:
            matched = await self._matched(regex, names)
            topics = await self._visible(matched, peer)
            resolved[regex] = ResolvedRegex(frozenset(topics), version, self._clock.now_ms())
        return resolved

    async def _matched(self, regex: str, names: list[str]) -> list[str]:
        try:
            pattern = self._patterns.compiled(regex)
        except PatternError:
            return []  # Of a group that was written by another broker, with other limits.
        steps, work = 0, pattern.matching(names)
        while True:
            try:
                steps += next(work)
            except StopIteration as end:
                matched: list[str] = end.value
                return matched
            if steps >= STEPS_PER_SLICE:
                steps = 0
                await asyncio.sleep(0)

    async def _visible(self, names: list[str], peer: Peer) -> list[str]:
        access, visible = self._access.quietly, []
        for number, name in enumerate(names, 1):
            if access.to_topic(peer, AclOperation.DESCRIBE, name):
                visible.append(name)
            if number % CHECKED_PER_SLICE == 0:
                await asyncio.sleep(0)
        return visible
