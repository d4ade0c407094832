"""How many files and sockets the process may have open, and what they are for.

Connections are a stranger's to make, so they must not take the last descriptor: a log that cannot open its next segment
refuses to be written. Logs must not take it either, or nobody could be let in to read them.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

from sordini.broker.configuration.config import Config
from sordini.broker.network.limits import UNBOUNDED
from sordini.broker.network.ports import Log
from sordini.storage.open_files import pinned_beyond

CONNECTIONS_EXPECTED = 1000
"""So many descriptors are wanted for connections, where `max.connections` does not say fewer."""

OTHER_FILES = 128
"""Descriptors for everything that is neither a segment's file nor a connection."""


class Descriptors(NamedTuple):
    """How many the broker may have open at once, by what they are for."""

    log_files: int = UNBOUNDED
    connections: int = UNBOUNDED


def allow_open_files(config: Config, log: Log, brokers: int = 1) -> Descriptors:
    """Raise the soft bound on descriptors to the hard one: logs and connections need more than the usual 1024.

    What each of `brokers` in this process may have of them.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = config.open_segments_max + min(config.max_connections, CONNECTIONS_EXPECTED) + OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        log.warning(
            "open file limit too low",
            limit=hard,
            wanted=wanted,
            cure="raise the hard limit (LimitNOFILE= in the unit, ulimit -Hn, docker run --ulimit nofile=...) "
            "or lower sordini.open.segments.max and max.connections",
        )
    return shares_of(hard, config.open_segments_max, brokers)


def shares_of(limit: int, open_segments_max: int, brokers: int = 1) -> Descriptors:
    """Divide `limit` descriptors between logs and connections, so that neither can take the other's last one.

    Logs have as many as they are configured to, but no more than half of what other files leave; a fifth of theirs is
    for files that stay open past `sordini.open.segments.max` while they are read.
    """
    if limit == resource.RLIM_INFINITY:
        return Descriptors(open_segments_max)
    left = max(limit - OTHER_FILES, limit // 2) // brokers
    log_files = max(1, min(open_segments_max, 2 * left // 5))
    return Descriptors(log_files, max(1, left - log_files - pinned_beyond(log_files)))
