"""How a broker joins its cluster: it registers, and waits until clients can be answered.

Alone, it is ready when it leads all of its partitions. In a cluster it accepts connections as soon as it is registered,
because the controller sends its commands over them, and is ready when the metadata that it received contains itself;
until then requests for metadata and coordinators are delayed (`broker/topics/first_metadata.py`).
"""

from __future__ import annotations

import asyncio

from sordini.broker.configuration.config import Config
from sordini.broker.security.sasl.first_user import FirstUser
from sordini.broker.wiring.running import Running
from sordini.broker.wiring.startup import STORE_LOST, store_lost
from sordini.replication.ports import Logger


async def join(running: Running, config: Config, first_user: FirstUser | None, log: Logger) -> None:
    """Register and wait for the controller's commands. Raises StartRefused when the coordination store is lost."""
    try:
        await running.parts.security.start(running.session, first_user, running.identity.cluster_id)
        await running.parts.quotas.load(running.session)
        await running.parts.group_configs.load(running.session)
        await running.parts.client_metrics.load(running.session)
    except STORE_LOST as error:
        raise store_lost(error) from error
    await running.parts.config_changes.start()
    if running.is_clustered:
        try:
            await running.cluster.membership.join(running.sockets.start)
            await _first_metadata(running, config.zookeeper_session_timeout_ms, log)
        finally:
            running.parts.first_metadata.finish()
    else:
        await running.cluster.membership.join()
        await running.cluster.channel.drained()


async def _first_metadata(running: Running, timeout_ms: int, log: Logger) -> None:
    """Wait for a controller's metadata, as long as a failed controller may go unnoticed; then start without it."""
    metadata = running.parts.metadata
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await metadata.until(lambda: running.is_in_metadata and not metadata.awaits_first_topics, timeout_ms)
            await running.cluster.channel.drained()
    except TimeoutError:
        pass
    metadata.awaits_first_topics_until(lambda: running.is_in_metadata)
    if not running.is_in_metadata:
        log.warning("no metadata received from a controller yet; Metadata answers are incomplete", waited_ms=timeout_ms)
