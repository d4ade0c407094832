"""How a broker stops: leaderships are handed over, open requests answered, and each part ended.

The order matters. Leaderships go first, while clients can still be answered and the coordination store is reachable;
the sockets close before the parts that answer requests do; the coordination store is closed after all of this, by the
server.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.configuration.config import Config
from sordini.broker.network.watchdog import Watchdog
from sordini.broker.wiring.running import Running
from sordini.replication.ports import Clock, Logger, SessionState


async def stop_parts(
    running: Running, config: Config, clock: Clock, watchdog: Watchdog, note: Callable[[str], None], log: Logger
) -> None:
    """Leave the cluster, answer open requests, and stop every part. `note` receives what is being done."""
    deadline_ms = clock.monotonic_ms() + config.shutdown_deadline_ms
    if running.is_clustered:
        if config.controlled_shutdown_enable:
            await _hand_over(running, config.shutdown_deadline_ms // 3, note, log)
        # Before the sockets close: the next controller may still send commands to this broker.
        await running.cluster.membership.leave()
    note("answering open requests")
    running.parts.replicas.resign_all()
    # Half of the time, so that a peer that does not read leaves the other half to the disks.
    await running.sockets.close((deadline_ms - clock.monotonic_ms()) // 2)
    if running.metrics is not None:
        await running.metrics.close()
    note("resigning as controller")
    watchdog.stop()
    await running.cluster.membership.leave()
    await running.parts.config_changes.stop()
    await running.parts.security.stop()
    running.parts.inter_broker.close()
    running.parts.transactions.close()
    running.parts.verification.remote.close()
    running.parts.share_states.remote.close()
    running.parts.led_shares.dead_letters.appends.close()
    running.parts.schemas.close()
    if running.tls is not None:
        running.tls.outgoing.close()


async def _hand_over(running: Running, timeout_ms: int, note: Callable[[str], None], log: Logger) -> None:
    """Controlled shutdown: other brokers take the leaderships, if there are any and the controller is reachable."""
    if not running.parts.metadata.brokers.keys() - {running.identity.broker_id}:
        return
    if running.session.state is not SessionState.CONNECTED:
        log.warning("coordination store disconnected; stopping without controlled shutdown")
        return
    note("handing leaderships over to other brokers")
    running.parts.replicas.stop_joining_isr()
    await running.cluster.leaving.leave(timeout_ms)
