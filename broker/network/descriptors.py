"""File descriptor limits, and how they are divided between logs and connections.

Any client can open connections, so these must not use all descriptors: a log that cannot open its next segment refuses
appends. Logs must not use all of them either, because then no connection could be accepted.
"""

from __future__ import annotations

import resource

from sordini.broker.configuration.config import Config
from sordini.broker.network.limits import UNBOUNDED
from sordini.replication.ports import Logger
from sordini.storage.open_files import pinned_beyond
from sordini.system.named_tuple import NamedTuple
from sordini.system.processes import raise_descriptor_limit

CONNECTIONS_EXPECTED = 1000
"""Descriptors to reserve for connections, unless `max.connections` is lower."""

OTHER_FILES = 128
"""Descriptors for everything that is neither a segment's file nor a connection."""


class Descriptors(NamedTuple):
    """The limits of one broker."""

    log_files: int = UNBOUNDED
    connections: int = UNBOUNDED


def allow_open_files(config: Config, log: Logger, brokers: int = 1) -> Descriptors:
    """Raise the soft limit on descriptors: logs and connections need more than the usual 1024 (macOS: 256).

    Returns the limits of each of `brokers` in this process.
    """
    limit = raise_descriptor_limit()
    needed = config.open_segments_max + min(config.max_connections, CONNECTIONS_EXPECTED) + OTHER_FILES
    if limit != resource.RLIM_INFINITY and limit < needed:
        log.warning(
            "open file limit too low",
            limit=limit,
            needed=needed,
            cure="raise the hard limit (LimitNOFILE= in the unit, ulimit -Hn, docker run --ulimit nofile=...) "
            "or lower sordini.open.segments.max and max.connections",
        )
    return shares_of(limit, config.open_segments_max, brokers)


def shares_of(limit: int, open_segments_max: int, brokers: int = 1) -> Descriptors:
    """Divide `limit` descriptors between logs and connections, so that neither can use up the other's.

    Logs get `sordini.open.segments.max`, but no more than half of what other files leave; a fifth of their share is for
    files that stay open beyond that number while they are read.
    """
    if limit == resource.RLIM_INFINITY:
        return Descriptors(open_segments_max)
    left = max(limit - OTHER_FILES, limit // 2) // brokers
    log_files = max(1, min(open_segments_max, 2 * left // 5))
    return Descriptors(log_files, max(1, left - log_files - pinned_beyond(log_files)))
