"""The keys of replication: how followers fetch, when they count as in sync, and how fast lagging ones may catch up."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import INT64_MAX, ConfigError, integer, long, one_of, setting

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclasses.dataclass(frozen=True)
class ReplicaSettings:
    """What this broker's followers, and its leaders about others' followers, are told. Defaults are Apache Kafka's."""

    num_replica_fetchers: int = setting(
        "num.replica.fetchers",
        integer(1),
        1,
        "Connections by which this broker fetches from each leader; partitions are dealt out among them.",
        dynamic=True,
    )
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        long(1),
        30000,
        "A follower that has not caught up for longer leaves the in-sync set.",
    )
    replica_fetch_wait_max_ms: int = setting(
        "replica.fetch.wait.max.ms",
        integer(0),
        500,
        "How long a leader may hold a follower's fetch back when it has nothing new.",
    )
    replica_fetch_min_bytes: int = setting(
        "replica.fetch.min.bytes",
        integer(0),
        1,
        "Bytes for which a leader answers a follower's fetch before that time.",
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        integer(0),
        1048576,
        "Bytes that a follower asks for in one partition; a first batch that is larger comes whole.",
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        integer(0),
        10485760,
        "Bytes that a follower asks for in one answer.",
    )
    replica_fetch_backoff_ms: int = setting(
        "replica.fetch.backoff.ms",
        integer(0),
        1000,
        "How long a follower waits after a failure: with one partition, or with all when the leader cannot be reached.",
    )
    replica_socket_timeout_ms: int = setting(
        "replica.socket.timeout.ms",
        integer(1),
        30000,
        "How long a follower waits for an answer; at least replica.fetch.wait.max.ms.",
    )
    replica_socket_receive_buffer_bytes: int = setting(
        "replica.socket.receive.buffer.bytes",
        integer(-1),
        65536,
        "SO_RCVBUF of connections to leaders; -1 leaves the system's.",
    )
    replica_selector_class: str | None = setting(
        "replica.selector.class",
        one_of(RACK_AWARE),
        None,
        "Sends consumers that name their rack to a replica there; unset, everybody reads from the leader.",
    )
    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        long(0),
        INT64_MAX,
        "Bytes in a second that leaders here send to lagging replicas of leader.replication.throttled.replicas.",
        dynamic=True,
    )
    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        long(0),
        INT64_MAX,
        "Bytes in a second that lagging replicas here fetch, of those in follower.replication.throttled.replicas.",
        dynamic=True,
    )
    replication_quota_window_num: int = setting(
        "replication.quota.window.num",
        integer(1),
        11,
        "Windows of time over which the rate of replication is measured.",
    )
    replication_quota_window_size_seconds: int = setting(
        "replication.quota.window.size.seconds", integer(1), 1, "How long each of these windows is."
    )


def check_replica(settings: ReplicaSettings) -> None:
    """Refuse waits that contradict each other; raises ConfigError."""
    wait_ms = settings.replica_fetch_wait_max_ms
    for key, bound_ms in (
        ("replica.socket.timeout.ms", settings.replica_socket_timeout_ms),
        ("replica.lag.time.max.ms", settings.replica_lag_time_max_ms),
    ):
        if wait_ms > bound_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} is not valid: allowed is no more than {key}={bound_ms}"
            )
