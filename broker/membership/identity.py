"""Which broker of which cluster this is: from the configuration, the log directories, and the coordination store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sordini.broker.configuration.config import Config
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import registration
from sordini.replication.ports import Session
from sordini.storage.checkpoints import DamagedFile, read_meta
from sordini.storage.disk import Disk
from sordini.storage.errors import WrongDirectory

BROKER_SEQUENCE = "/brokers/seqid"


class Owner(NamedTuple):
    """The cluster that a log directory belongs to."""

    cluster_id: str
    directory: str


class BrokerIdentity(NamedTuple):
    """The two ids that meta.properties keeps."""

    broker_id: BrokerId
    cluster_id: str


def owner_of(disk: Disk, directories: Sequence[str]) -> Owner | None:
    """The cluster that the log directories belong to, by the first meta.properties that names one.

    A directory that cannot be read is passed over: the log manager decides whether it ends the start.
    """
    for directory in directories:
        try:
            found = read_meta(disk, directory)
        except (OSError, DamagedFile):
            continue
        if found is not None and found[0].cluster_id:
            return Owner(found[0].cluster_id, directory)
    return None


async def find_identity(config: Config, disk: Disk, session: Session) -> BrokerIdentity:
    """The configured broker id, or the one the log directories were written under, or a fresh one (KIP-89's rule).

    Raises WrongDirectory when a directory's meta.properties cannot be read; whether it belongs to this broker is
    the log manager's to check.
    """
    cluster_id = await registration.cluster_id(session)
    if config.broker_id >= 0:
        return BrokerIdentity(BrokerId(config.broker_id), cluster_id)
    written = _written_id(disk, config.log_directories)
    if written is not None:
        return BrokerIdentity(written, cluster_id)
    # The node's version is the counter: every write draws a number that nobody drew before.
    stat = await session.set(BROKER_SEQUENCE, b"")
    return BrokerIdentity(BrokerId(config.reserved_broker_max_id + stat.version), cluster_id)


def _written_id(disk: Disk, directories: Sequence[str]) -> BrokerId | None:
    for directory in directories:
        try:
            found = read_meta(disk, directory)
        except DamagedFile as error:
            raise WrongDirectory(directory, str(error)) from error
        if found is not None and found[0].broker_id is not None:
            return BrokerId(found[0].broker_id)
    return None
