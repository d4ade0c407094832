"""The instances of clients that ask for subscriptions or push, and whether a request of one is in time. Pure.

An instance is remembered for three push intervals, and a minute at least. What it may do begins anew, as in Apache
Kafka, when the subscriptions change and when it comes over another connection: its next request is in time.

    GetTelemetrySubscriptions    in time when a push interval has passed since its last request, or when its last push
                                 was refused for its subscription id or its compression
    PushTelemetry                in time when a push interval has passed since its last push; the last one of one
                                 that terminates is always in time

All checks and their order are Apache Kafka 4.4's, and so is this: a push behind the last one is refused once, and then
no longer for that reason.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from sordini.broker.configuration.client_metrics_config import ClientMetricsConfig
from sordini.broker.metrics.telemetry.machine.figures import Decoded, FigureBounds, Figures, GroupMember
from sordini.broker.metrics.telemetry.machine.subscriptions import TEXT_MAX, ClientIdentity, Subscribed, subscribed
from sordini.protocol.errors import ErrorCode
from sordini.protocol.primitives import ZERO_UUID
from sordini.system.named_tuple import NamedTuple

EXPIRY_MS_MIN: Final = 60_000
SWEEP_MS: Final = 10_000
"""Between two looks at all instances for those that have expired."""
NEVER_MS: Final = -(2**62)
RESERVED: Final = frozenset({ZERO_UUID, ZERO_UUID[:15] + b"\x01"})
"""Ids that no instance has."""
CODEC_MAX: Final = 4
ASK_AGAIN: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""Errors upon which a client asks for its subscription at once."""


class Now(NamedTuple):
    """The time, both ways."""

    monotonic_ms: int
    wall_ms: int


class Push(NamedTuple):
    """What decides whether a push is accepted."""

    subscription_id: int
    is_terminating: bool
    codec: int
    size: int
    """Bytes, as they came."""


class Instance:
    """One instance of a client."""

    __slots__ = (
        "client",
        "connection_id",
        "expires_ms",
        "figures",
        "figures_dropped",
        "first_seen_wall_ms",
        "instance_id",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "last_push_wall_ms",
        "member",
        "pushed_bytes",
        "pushes",
        "subscribed",
        "version",
    )

    def __init__(self, instance_id: bytes, client: ClientIdentity, connection_id: str, now: Now) -> None:
        self.instance_id = instance_id
        self.client = client
        self.connection_id = connection_id
        self.first_seen_wall_ms = now.wall_ms
        self.last_push_wall_ms = -1
        self.pushes = 0
        self.pushed_bytes = 0
        self.member: GroupMember | None = None
        """By its last push."""
        self.figures: Figures = {}
        self.figures_dropped = 0
        """Of the last push."""
        self.expires_ms = 0
        self.version = -1
        self.reset()

    def reset(self) -> None:
        """Forget when it asked and pushed, and how that ended."""
        self.last_get_ms = self.last_push_ms = NEVER_MS
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.subscribed = Subscribed(0, (), 0)

    @property
    def interval_ms(self) -> int:
        return self.subscribed.push_interval_ms


class Instances:
    """All instances that are known, the one that was silent for longest first."""

    def __init__(self, clients_max: int, series_max: int, push_bytes_max: int) -> None:
        self._clients_max = clients_max
        self._push_bytes_max = push_bytes_max
        self._known: OrderedDict[bytes, Instance] = OrderedDict()
        self._swept_ms = NEVER_MS
        self.bounds = FigureBounds(series_max)
        self.evicted = 0
        """Instances that were forgotten before their time, for others."""
        self.throttled = 0
        """Requests that were not in time."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, instance_id: bytes) -> Instance | None:
        """An instance that is known, without any effect on it."""
        return self._known.get(instance_id)

    def ids(self, group_id: str | None = None) -> list[bytes]:
        """All ids, or those of a group's members, in their order."""
        if group_id is None:
            return sorted(self._known)
        return sorted(one for one, it in self._known.items() if it.member and it.member.group_id == group_id)

    def requested(
        self,
        instance_id: bytes,
        client: ClientIdentity,
        connection_id: str,
        subscriptions: Sequence[ClientMetricsConfig],
        version: int,
        now: Now,
    ) -> Instance:
        """The instance that sent a request, which is new if it is not known. `version` is of the subscriptions."""
        self.expire(now)
        instance = self._known.get(instance_id)
        if instance is None:
            instance = self._known[instance_id] = Instance(instance_id, _cut(client), connection_id, now)
            self._evict()
        elif instance.connection_id != connection_id or instance.version != version:
            instance.reset()
            instance.client, instance.connection_id, instance.version = _cut(client), connection_id, -1
        if instance.version != version:
            instance.subscribed = subscribed(subscriptions, instance_id, client)
            instance.version = version
        instance.expires_ms = now.monotonic_ms + max(EXPIRY_MS_MIN, 3 * instance.interval_ms)
        self._known.move_to_end(instance_id)
        return instance

    def asked(self, instance: Instance, now: Now) -> ErrorCode:
        """An instance asks for its subscription: NONE, or why it gets none."""
        since_ms = now.monotonic_ms - max(instance.last_get_ms, instance.last_push_ms)
        if since_ms >= instance.interval_ms:
            instance.last_get_ms = now.monotonic_ms
        elif instance.last_error not in ASK_AGAIN:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE

    def pushed(self, instance: Instance, push: Push, now: Now) -> ErrorCode:
        """An instance pushes: NONE when its values may be read, or why they are refused."""
        error = self._refusal(instance, push, now)
        instance.is_terminating = push.is_terminating
        if error is not ErrorCode.NONE:
            instance.last_error = error
        return error

    def _refusal(self, instance: Instance, push: Push, now: Now) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if now.monotonic_ms - instance.last_push_ms >= instance.interval_ms:
            instance.last_push_ms = now.monotonic_ms
        elif not push.is_terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscribed.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= push.codec <= CODEC_MAX:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size > self._push_bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def read(self, instance: Instance, push_bytes: int, decoded: Decoded, now: Now) -> None:
        """An accepted push has been read."""
        instance.last_error = ErrorCode.NONE
        instance.last_push_wall_ms = now.wall_ms
        instance.pushes += 1
        instance.pushed_bytes += push_bytes
        instance.member = decoded.member
        dropped = decoded.dropped
        self.bounds.dropped += dropped
        if self._known.get(instance.instance_id) is instance:  # It may have been forgotten while they were read.
            dropped += self.bounds.keep(instance.figures, decoded.values, now.wall_ms)
        instance.figures_dropped = dropped

    def expire(self, now: Now) -> None:
        """Forget those that were silent for too long; looks at them every SWEEP_MS."""
        if now.monotonic_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now.monotonic_ms
        for instance in [one for one in self._known.values() if one.expires_ms <= now.monotonic_ms]:
            self._forget(instance)

    def _evict(self) -> None:
        while len(self._known) > self._clients_max:
            self._forget(next(iter(self._known.values())))
            self.evicted += 1

    def _forget(self, instance: Instance) -> None:
        del self._known[instance.instance_id]
        self.bounds.forget(instance.figures)


def _cut(client: ClientIdentity) -> ClientIdentity:
    """What is kept of a client's texts."""
    return client._replace(
        client_id=None if client.client_id is None else client.client_id[:TEXT_MAX],
        software_name=client.software_name[:TEXT_MAX],
        software_version=client.software_version[:TEXT_MAX],
        principal=client.principal[:TEXT_MAX],
    )
