"""The keys of a broker's place in its cluster: who it is, where the cluster keeps its state, how the broker leaves."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import ConfigError, boolean, integer, long, setting, string


@dataclasses.dataclass(frozen=True)
class MembershipSettings:
    """What a broker's registration is told. Defaults are Apache Kafka's."""

    broker_id: int = setting(
        "broker.id",
        integer(-1),
        -1,
        "This broker's number; -1 takes a free one above reserved.broker.max.id.",
    )
    broker_id_generation_enable: bool = setting(
        "broker.id.generation.enable", boolean, True, "Whether numbers are given out automatically."
    )
    reserved_broker_max_id: int = setting(
        "reserved.broker.max.id",
        integer(0),
        1000,
        "Numbers up to this one are never given out automatically.",
    )
    broker_rack: str | None = setting(
        "broker.rack", string, None, "The rack it stands in: replicas are spread over racks, and read from close by."
    )
    zookeeper_connect: str = setting(
        "zookeeper.connect", string, "", "host:port,.../chroot of a ZooKeeper; empty keeps the same in a local file."
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        "zookeeper.connection.timeout.ms",
        integer(1),
        None,
        "How long to wait for ZooKeeper; unset is the session timeout.",
    )
    zookeeper_session_timeout_ms: int = setting(
        "zookeeper.session.timeout.ms",
        integer(1),
        18000,
        "How long ZooKeeper keeps the registration of a broker that it does not hear of.",
    )
    weak_acks_need_store: bool = setting(
        "sordini.weak.acks.need.store",
        boolean,
        False,
        "Refuse writes with acks=0 and acks=1 while ZooKeeper may have ended this broker's session.",
    )
    controlled_shutdown_enable: bool = setting(
        "controlled.shutdown.enable", boolean, True, "Hand leaderships over to other brokers before stopping."
    )
    controlled_shutdown_max_retries: int = setting(
        "controlled.shutdown.max.retries",
        integer(),
        3,
        "How often the controller is asked again; then the broker stops all the same.",
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        "controlled.shutdown.retry.backoff.ms",
        long(),
        5000,
        "The pause before a retry. A change of the controller or of the brokers ends it early, and spends no retry.",
    )
    controller_socket_timeout_ms: int = setting(
        "controller.socket.timeout.ms",
        integer(),
        30000,
        "How long the controller and other brokers wait for each other's answers.",
    )


def check_membership(config: MembershipSettings) -> None:
    """Raise ConfigError for a broker's number that cannot be this one's."""
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
