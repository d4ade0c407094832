"""What a mirror is to do, as its configuration file says. Pure.

`cli/commands/mirror/mirror_file.py` reads the file; defaults are here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

from sordini.client.addresses import Address
from sordini.client.authentication import SaslCredentials
from sordini.client.ports import Socket
from sordini.mirror.naming import Naming, Selection
from sordini.system.named_tuple import NamedTuple

EXCLUDED_GROUPS: Final = ("console-consumer-.*", "connect-.*", "__.*")
"""As in MirrorMaker 2."""
EXCLUDED_CONFIGS: Final = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.(before|after)\.max\.ms",
    r"message\.timestamp\.type",
    r"message\.format\.version",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)
"""As in MirrorMaker 2, and what copies do not depend on: they are of format 2, and have their times."""


def patterns(texts: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Compiled; raises re.error."""
    return tuple(map(re.compile, texts))


class Start(Enum):
    """Where a partition begins that has no position yet."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Delivery(Enum):
    """What is done in the target."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class SyncsIn(Enum):
    """The cluster that has the offset syncs."""

    TARGET = "target"
    SOURCE = "source"


class Access(NamedTuple):
    """How to reach one cluster."""

    alias: str
    bootstrap: tuple[Address, ...]
    connect: Callable[[Address], Awaitable[Socket]]
    """Opens a connection, with TLS where the cluster has it. Raises OSError."""
    credentials: Callable[[], SaslCredentials] | None = None
    """What to log in with; raises OSError and ValueError. None without a login."""


class Source(NamedTuple):
    """One cluster to copy from."""

    access: Access
    topics: Selection
    groups: Selection
    start: Start = Start.EARLIEST


class Plan(NamedTuple):
    """The whole file. Times are in seconds."""

    name: str
    target: Access
    sources: tuple[Source, ...]
    naming: Naming = Naming.PREFIX
    separator: str = "."
    delivery: Delivery = Delivery.EXACTLY_ONCE
    commit_s: float = 0.5
    """The longest time for which a transaction is open: until then consumers with read_committed see nothing of it."""
    refresh_s: float = 30.0
    """Between two looks for new topics, partitions and settings."""
    sync_configs: bool = True
    excluded_configs: tuple[re.Pattern[str], ...] = patterns(EXCLUDED_CONFIGS)
    replication_factor: int = -1
    """Of topics that are created; -1 is the target's default."""
    groups_s: float = 10.0
    """Between two translations of groups' offsets."""
    sync_group_offsets: bool = False
    heartbeat_s: float = 1.0
    """0 without heartbeats."""
    syncs_in: SyncsIn = SyncsIn.TARGET
    metrics: Address | None = None
