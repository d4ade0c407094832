"""The keys of a broker's membership: its id, the coordination store, and controlled shutdown."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import ConfigError, boolean, integer, long, setting, string


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class MembershipSettings:
    """Settings of registration and shutdown. Defaults are Apache Kafka's."""

    broker_id: int = setting(
        "broker.id",
        integer(-1),
        -1,
        "This broker's id; -1 generates one above reserved.broker.max.id.",
    )
    broker_id_generation_enable: bool = setting(
        "broker.id.generation.enable", boolean, True, "Whether broker ids are generated."
    )
    reserved_broker_max_id: int = setting(
        "reserved.broker.max.id",
        integer(0),
        1000,
        "The highest broker id that is never generated.",
    )
    broker_rack: str | None = setting(
        "broker.rack",
        string,
        None,
        "The broker's rack: replicas are spread over racks, and consumers can fetch from their own.",
    )
    zookeeper_connect: str = setting(
        "zookeeper.connect",
        string,
        "",
        "host:port,.../chroot of a ZooKeeper; empty uses the embedded store, a local file.",
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        "zookeeper.connection.timeout.ms",
        integer(1),
        None,
        "How long to wait for a connection to ZooKeeper; unset is the session timeout.",
    )
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms",
        integer(1),
        18000,
        "How long ZooKeeper keeps the session, and the registration, of a silent broker.",
    )
    leader_acks_require_session: bool = setting(
        "sordini.leader.acks.require.session",
        boolean,
        False,
        "Refuse writes with acks=0 and acks=1 while this broker's ZooKeeper session may have expired.",
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable", boolean, True, "Hand leaderships over to other brokers before stopping."
    )
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries",
        integer(),
        3,
        "Retries of controlled shutdown; after them the broker stops without it.",
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        "controlled.shutdown.retry.backoff.ms",
        long(),
        5000,
        "The pause before a retry. A change of controller or brokers ends it early, and does not count as a retry.",
    )
    controller_socket_timeout_ms: int = setting(
        "controller.socket.timeout.ms",
        integer(),
        30000,
        "Timeout of requests between the controller and other brokers.",
    )


def check_membership(config: MembershipSettings) -> None:
    """Raise ConfigError for a broker id that is not allowed."""
    if not config.broker_id_generation_enable:
        if config.broker_id < 0:
            raise ConfigError(
                f"broker.id={config.broker_id} is not valid: allowed is, with broker.id.generation.enable=false, "
                "a whole number of at least 0"
            )
    elif config.broker_id > config.reserved_broker_max_id:
        raise ConfigError(
            f"broker.id={config.broker_id} is not valid: allowed is, unless broker.id.generation.enable=false, a whole "
            f"number up to reserved.broker.max.id={config.reserved_broker_max_id}"
        )
