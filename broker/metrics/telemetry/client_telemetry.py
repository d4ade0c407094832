"""Client telemetry of one broker: the machine, with the clock, the subscriptions and the reader of pushes.

Pushes are read one at a time, beside the loop. Of more, PUSHES_WAITING_MAX and `WAITING_BYTES` wait; a push beyond is
answered with THROTTLING_QUOTA_EXCEEDED, and the client pushes again after its interval.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from sordini.broker.configuration.client_metrics_configs import ClientMetricsConfigs
from sordini.broker.configuration.config import Config
from sordini.broker.metrics.telemetry.machine.instances import Instance, Instances, Now, Push
from sordini.broker.metrics.telemetry.machine.subscriptions import ClientIdentity
from sordini.broker.metrics.telemetry.ports import PushReader
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.ports import Clock, Logger

PUSHES_WAITING_MAX: Final = 1_000
WAITING_BYTES: Final = 16 * 1024 * 1024
"""Of pushes that are read or wait, if one is there already."""
LOG_INTERVAL_MS: Final = 60_000


class ClientTelemetry:
    """What requests of clients, `sordini clients` and the metrics use."""

    def __init__(
        self,
        config: Config,
        subscriptions: ClientMetricsConfigs,
        reader: PushReader,
        new_id: Callable[[], bytes],
        clock: Clock,
        log: Logger,
    ) -> None:
        self.bytes_max = config.telemetry_max_bytes
        self.instances = Instances(
            config.client_telemetry_clients_max, config.client_telemetry_series_max, config.telemetry_max_bytes
        )
        self.reader = reader
        self.new_id = new_id
        self.results: Counter[str] = Counter()
        """Pushes by how they were answered."""
        self.bytes_read = 0
        self.cpu_ms = 0
        self._subscriptions = subscriptions
        self._clock = clock
        self._log = log
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0
        self._held_bytes = 0
        self._logged_ms: int | None = None

    @property
    def now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.now_ms())

    def requested(self, instance_id: bytes, client: ClientIdentity, connection_id: str) -> Instance:
        """The instance that sent a request."""
        subscriptions = self._subscriptions
        return self.instances.requested(
            instance_id, client, connection_id, subscriptions.in_force, subscriptions.version, self.now
        )

    def accept(self, instance: Instance, push: Push) -> ErrorCode:
        """NONE when a push is taken, which must be read if it has metrics; or why it is refused."""
        error = self.instances.pushed(instance, push, self.now)
        if error is ErrorCode.NONE and self._is_full(push.size):
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if error is ErrorCode.NONE and push.size:
            self._waiting += 1
            self._held_bytes += push.size
        else:
            self.results[error.name] += 1
        return error

    def _is_full(self, size: int) -> bool:
        if self._waiting >= PUSHES_WAITING_MAX:
            return True
        return bool(self._held_bytes) and self._held_bytes + size > WAITING_BYTES

    async def read(self, instance: Instance, codec: int, data: bytes) -> ErrorCode:
        """Read an accepted push into the figures of its instance; returns NONE, or the error of `PushReader`."""
        try:
            async with self._one_at_a_time:
                done = await self.reader.read(codec, data, self.bytes_max)
        except BrokerError as error:
            instance.last_error = error.code
            self.results[error.code.name] += 1
            self._log_refused(instance, str(error))
            return error.code
        finally:
            self._waiting -= 1
            self._held_bytes -= len(data)
        self.results[ErrorCode.NONE.name] += 1
        self.bytes_read += len(data)
        self.cpu_ms += done.cpu_ms
        self.instances.read(instance, len(data), done.decoded, self.now)
        return ErrorCode.NONE

    def _log_refused(self, instance: Instance, why: str) -> None:
        """One line a minute: clients that push what cannot be read do so again and again."""
        now_ms = self._clock.monotonic_ms()
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = now_ms
            client = instance.client
            self._log.warning("metrics of a client refused", client=client.client_id, peer=client.address, reason=why)
