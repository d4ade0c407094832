"""The coordination store that a broker's configuration names."""

from __future__ import annotations

import asyncio

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.wiring.startup import refuse_lost_file
from sordini.coordination_store.embedded import open_embedded
from sordini.coordination_store.store_location import STORE_FILE, moved_to, refuse_moved
from sordini.replication.ports import Clock, CoordinationStore, Logger, StoreUnusable
from sordini.storage.disk import Disk


async def open_store(config: Config, disk: Disk, clock: Clock, log: Logger) -> CoordinationStore:
    """ZooKeeper if it is configured, otherwise the embedded store in the first log directory.

    Raises StoreUnusable, and OSError for the directory.
    """
    if config.zookeeper_connect:
        # Late: kazoo is slow to import.
        from sordini.broker.security.tls.zookeeper_material import access_of
        from sordini.coordination_store.kazoo_lines import KazooLines
        from sordini.coordination_store.zookeeper import ZooKeeperStore

        try:
            access = access_of(config, disk)
        except ConfigError as error:
            raise StoreUnusable(str(error)) from None
        if access.login is not None and access.tls is None:
            log.warning("the login to ZooKeeper is sent without TLS", user=access.login.user)
        KazooLines(log, asyncio.get_running_loop().call_soon_threadsafe).install()
        return ZooKeeperStore(
            config.zookeeper_connect,
            access,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms,
        )
    directory = config.log_directories[0]
    disk.make_directory(directory)
    file = f"{directory}/{STORE_FILE}"
    if moved_to(disk, file) is None:
        refuse_lost_file(disk, file, config.log_directories)
    store = await open_embedded(file, clock)
    try:
        refuse_moved(disk, file)
    except StoreUnusable:
        await store.close()
        raise
    return store
