"""Which broker of which cluster this is: from the configuration, the log directories, and the coordination store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sordini.broker.configuration.config import Config
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths, registration
from sordini.replication.ports import Session
from sordini.storage.checkpoints import DamagedFile, read_meta
from sordini.storage.disk import Disk
from sordini.storage.errors import WrongDirectory
from sordini.system.named_tuple import NamedTuple

DIGITS_MAX = 10
"""Of a broker id."""


class Owner(NamedTuple):
    """The cluster that a log directory belongs to."""

    cluster_id: str
    directory: str


class BrokerIdentity(NamedTuple):
    """The two ids that meta.properties keeps."""

    broker_id: BrokerId
    cluster_id: str


class LocalBroker(NamedTuple):
    """The broker itself, as the parts that send requests or write to the store need it."""

    broker_id: BrokerId
    epoch: Callable[[], int]
    """The broker epoch of the current registration."""
    session: Session


def owner_of(disk: Disk, directories: Sequence[str]) -> Owner | None:
    """The cluster that the log directories belong to, by the first meta.properties that names one.

    A directory that cannot be read is skipped: the log manager decides whether that refuses the start.
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
    """The configured broker id, or the one in meta.properties, or a generated one.

    Raises WrongDirectory when a directory's meta.properties cannot be read; the log manager checks whether the
    directory belongs to this broker.
    """
    cluster_id = await registration.cluster_id(session)
    if config.broker_id >= 0:
        return BrokerIdentity(BrokerId(config.broker_id), cluster_id)
    written = _written_id(disk, config.log_directories)
    if written is not None:
        return BrokerIdentity(written, cluster_id)
    # The znode's version is the counter: every write draws a number that was not drawn before.
    stat = await session.set(paths.BROKER_SEQUENCE, b"")
    return BrokerIdentity(BrokerId(config.reserved_broker_max_id + stat.version), cluster_id)


def broker_id_of(name: str) -> BrokerId | None:
    """The broker id that a znode below /brokers/ids names; None where the name is no broker id."""
    is_number = name.isascii() and name.isdecimal() and len(name) <= DIGITS_MAX
    return BrokerId(int(name)) if is_number else None


def _written_id(disk: Disk, directories: Sequence[str]) -> BrokerId | None:
    for directory in directories:
        try:
            found = read_meta(disk, directory)
        except DamagedFile as error:
            raise WrongDirectory(directory, str(error)) from error
        if found is not None and found[0].broker_id is not None:
            return BrokerId(found[0].broker_id)
    return None
