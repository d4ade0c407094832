"""The keys of replication: how followers fetch, when they are in sync, and replication quotas."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import INT64_MAX, ConfigError, integer, long, one_of, setting

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class ReplicaSettings:
    """Settings of followers, and of leaders for their followers. Defaults are Apache Kafka's."""

    num_replica_fetchers: int = setting(
        "num.replica.fetchers",
        integer(1),
        1,
        "Fetchers, each with a connection, for each leader; partitions are distributed over them.",
        dynamic=True,
    )
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        long(1),
        30000,
        "Time without catching up after which a follower is removed from the ISR.",
    )
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        integer(0),
        500,
        "Maximum wait of a follower's fetch for new records.",
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        integer(0),
        1,
        "Bytes at which a leader answers a follower's fetch before that wait is over.",
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        integer(0),
        1048576,
        "Bytes that a follower fetches for one partition; a larger first batch is returned whole.",
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        integer(0),
        10485760,
        "Bytes that a follower fetches with one request.",
    )
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        integer(0),
        1000,
        "Pause of a follower after a failure: of one partition, or of all when the leader is unreachable.",
    )
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms",
        integer(1),
        30000,
        "Timeout of a follower's fetch; at least replica.fetch.wait.max.ms.",
    )
    replica_socket_receive_buffer_bytes: int = setting(
        "replica.socket.receive.buffer.bytes",
        integer(-1),
        65536,
        "SO_RCVBUF of connections to leaders; -1 is the system's default.",
    )
    replica_selector_class: str | None = setting(
        "replica.selector.class",
        one_of(RACK_AWARE),
        None,
        "Redirects consumers that name their rack to a replica there; unset, consumers fetch from the leader.",
    )
    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        long(0),
        INT64_MAX,
        "Bytes per second that this broker's leaders send to out-of-sync leader.replication.throttled.replicas.",
        dynamic=True,
    )
    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        long(0),
        INT64_MAX,
        "Bytes per second that this broker's out-of-sync follower.replication.throttled.replicas fetch.",
        dynamic=True,
    )
    replication_quota_window_num: int = setting(
        "replication.quota.window.num",
        integer(1),
        11,
        "Windows over which the replication rate is measured.",
    )
    replication_quota_window_size_seconds: int = setting(
        "replication.quota.window.size.seconds", integer(1), 1, "Length of each of these windows."
    )


def check_replica(settings: ReplicaSettings) -> None:
    """Raise ConfigError for timeouts that contradict each other."""
    wait_ms = settings.replica_fetch_wait_max_ms
    for key, bound_ms in (
        ("replica.socket.timeout.ms", settings.replica_socket_timeout_ms),
        ("replica.lag.time.max.ms", settings.replica_lag_time_max_ms),
    ):
        if wait_ms > bound_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} is not valid: allowed is no more than {key}={bound_ms}"
            )
