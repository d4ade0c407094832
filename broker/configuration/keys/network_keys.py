"""The keys of the network layer: listeners, limits, deadlines."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import (
    boolean,
    integer,
    long,
    one_of,
    setting,
    string,
)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class NetworkSettings:
    """Settings of the acceptor, the processors and the loop's watchdog."""

    listeners: str = setting(
        "listeners", string, "PLAINTEXT://:9092", "Where to listen: name://host:port, comma-separated."
    )
    advertised_listeners: str | None = setting(
        "advertised.listeners", string, None, "Addresses that clients connect to; empty repeats `listeners`."
    )
    advertised_host: str | None = setting(
        "sordini.advertised.host",
        string,
        None,
        "Host advertised for listeners on all addresses without `advertised.listeners`; empty: the machine's name.",
    )
    advertised_rules_text: str | None = setting(
        "sordini.advertised.listeners.rules",
        string,
        None,
        "Other advertised addresses for connections by their source, the address they connected to or their TLS server "
        "name: NAME://host:port from=NETWORK to=ADDRESS sni=NAME on=LISTENER, semicolons between rules.",
    )
    listener_security_protocol_map: str = setting(
        "listener.security.protocol.map",
        string,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name: NAME:PROTOCOL, comma-separated.",
    )
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name",
        string,
        None,
        "The listener for connections between brokers; unset: the one named as `security.inter.broker.protocol`.",
    )
    num_network_threads: int = setting(
        "num.network.threads",
        integer(1, 1024),
        3,
        "Processor coroutines; connections are distributed over them.",
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size",
        integer(1),
        50,
        "Connections that the kernel queues before they are accepted.",
    )
    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes",
        integer(-1),
        102400,
        "SO_SNDBUF of accepted sockets; -1 is the system's default.",
    )
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes",
        integer(-1),
        102400,
        "SO_RCVBUF of accepted sockets; -1 is the system's default.",
    )
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        integer(1),
        104857600,
        "Maximum size of a request; a larger one closes its connection.",
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        long(-1),
        -1,
        "Bytes of unanswered requests over all connections before reading pauses; -1 is no limit.",
    )
    tcp_user_timeout_ms: int = setting(
        "sordini.tcp.user.timeout.ms",
        integer(0),
        600000,
        "Time that sent bytes may stay unacknowledged before the connection is dropped; 0 is the system's default.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", long(-1), 600000, "Idle time after which a connection is closed; -1 never."
    )
    processor_connections_max: int = setting(
        "sordini.processor.connections.max",
        integer(1),
        100000,
        "Maximum connections of one processor.",
    )
    connection_pending_produce_requests_max: int = setting(
        "sordini.connection.pending.produce.requests.max",
        integer(1),
        64,
        "Maximum unanswered produce requests of one connection.",
    )
    first_request_ms: int = setting(
        "sordini.first.request.timeout.ms",
        long(-1),
        -1,
        "Time within which a new connection must send a complete request; -1 is no limit.",
    )
    request_bytes_per_s_min: int = setting(
        "sordini.request.bytes.per.second.min",
        integer(-1),
        -1,
        "Minimum rate at which a request must arrive once it has begun; -1 is no limit.",
    )
    sendfile_enable: bool = setting(
        "sordini.sendfile.enable", boolean, True, "Send records with sendfile(2); false copies them."
    )
    event_loop: str = setting(
        "sordini.event.loop",
        one_of("auto", "uvloop", "asyncio"),
        "auto",
        "The event loop; auto is uvloop where it is installed.",
    )
    stall_threshold_ms: int = setting(
        "sordini.stall.threshold.ms",
        integer(-1),
        500,
        "A callback that blocks the event loop for longer is logged with its stack; -1 never.",
    )
    shutdown_deadline_ms: int = setting(
        "sordini.shutdown.deadline.ms",
        integer(1000),
        30000,
        "Time that a stop may take before it is forced; open requests get half of it.",
    )
    metrics_port: int = setting(
        "sordini.metrics.port",
        integer(-1, 65535),
        -1,
        "Port of GET /metrics for Prometheus, /healthz, /readyz and /health; 0 chooses a free one, -1 disables it.",
    )
    metrics_group_partitions_max: int = setting(
        "sordini.metrics.group.partitions.max",
        integer(0, 10_000_000),
        10_000,
        "Committed offsets whose lag the Prometheus endpoint shows, of groups in the order of their names.",
    )
    metrics_host: str = setting(
        "sordini.metrics.host", string, "127.0.0.1", "Address of the Prometheus endpoint; empty is every address."
    )
    metrics_kafka_names: bool = setting(
        "sordini.metrics.kafka.names",
        boolean,
        True,
        "Whether metrics have Apache Kafka's names of the JMX exporter, too, which dashboards for it query.",
    )
