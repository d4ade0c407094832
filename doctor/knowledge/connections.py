"""Faults between a client and the first bytes of a broker: names, TCP, and what listens there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge.entry import CLIENT, Entry

ENTRIES: Final[Mapping[Fault, Entry]] = {
    Fault.NAME_UNRESOLVED: Entry(
        "The name {host} does not resolve on this machine ({reason}), so a client here cannot even begin to connect. "
        "The name is misspelt, or it exists only in another network: that of Docker Compose, a Kubernetes namespace, "
        "a VPN.",
        f"{CLIENT}, with a name or an address that resolves here",
        ("bootstrap.servers=192.0.2.10:{port}",),
    ),
    Fault.CONNECTION_REFUSED: Entry(
        "{host} is reached, and no program listens on port {port} there ({addresses}). The broker is not running, it "
        "listens on another port, or it listens on 127.0.0.1 only and this is another machine; from a container, "
        "localhost is the container itself.",
        "once the broker runs, in its server.properties, so that it listens on all addresses of its machine",
        ("listeners={protocol}://0.0.0.0:{port}",),
    ),
    Fault.CONNECTION_TIMEOUT: Entry(
        "Nothing comes back from {host} on port {port} within {seconds} s ({addresses}), neither a connection nor a "
        "refusal. A firewall or a security group drops the packets, the machine is off, or its route leads elsewhere. "
        "A broker that is merely stopped would refuse at once.",
        "on the firewall or security group in front of the broker",
        ("allow TCP port {port} from this machine to {host}",),
    ),
    Fault.SOME_ADDRESSES_FAIL: Entry(
        "{host} has several addresses, and the broker does not accept connections at all of them: {failed}. Clients "
        "try the next one, after a message that looks like a failure, or after a wait. With localhost it is mostly "
        "::1 (IPv6) that resolves and 127.0.0.1 (IPv4) that listens, or the other way round.",
        f"{CLIENT}, with the address that accepts connections",
        ("bootstrap.servers={works}:{port}",),
        is_note=True,
    ),
    Fault.HTTP_SERVER: Entry(
        "A web server answers at {at}, not a Kafka broker: it said {answer}. The port is that of a console, a REST "
        "proxy, a schema registry, metrics or a load balancer.",
        f"{CLIENT}, with the port of the broker's listener",
        ("bootstrap.servers={host}:9092",),
    ),
    Fault.ZOOKEEPER: Entry(
        "A ZooKeeper answers at {at}, not a Kafka broker. Clients connect to brokers; only old tools, with the option "
        "--zookeeper, connected to this port.",
        f"{CLIENT}, with the port of a broker in place of ZooKeeper's",
        ("bootstrap.servers={host}:9092",),
    ),
    Fault.TLS_SPOKEN_PLAIN: Entry(
        "The listener at {at} speaks TLS, and this client speaks plaintext ({protocol}) to it. The broker reads the "
        "first request as a broken TLS record and closes the connection; the client sees no reason, reads the bytes "
        "of a TLS alert as the length of a response, or waits for a timeout.",
        CLIENT,
        ("security.protocol={right_protocol}", "ssl.truststore.type=PEM", "ssl.truststore.location=/path/to/ca.pem"),
    ),
    Fault.PLAIN_SPOKEN_TLS: Entry(
        "The listener at {at} speaks plaintext, and this client begins with TLS ({protocol}). The broker reads the "
        "first TLS record as the length of a request, far too large, and closes the connection.",
        f"{CLIENT}, or the port of the broker's TLS listener",
        ("security.protocol={right_protocol}",),
    ),
    Fault.CLOSED_UNANSWERED: Entry(
        "{at} accepts the connection and closes it before it answers a Kafka request, with and without TLS. This is "
        "what a proxy, a port forward or a load balancer does that has no broker behind it, and a broker that is at "
        "max.connections or max.connections.per.ip.",
        "at the proxy: a TCP target that is the broker itself; at a broker at its limit, in server.properties",
        ("max.connections=2147483647",),
    ),
    Fault.SILENT: Entry(
        "{at} accepts the connection and then says nothing within {seconds} s, neither to Kafka nor to TLS. The "
        "process hangs (out of memory, a stopped container, a full disk), or a port forward accepts for a broker that "
        "is not reached.",
        "on the broker's machine, to see whether the process itself answers",
        ("sordini doctor 127.0.0.1:{port}",),
    ),
    Fault.OTHER_PROTOCOL: Entry(
        "What answers at {at} is no Kafka broker: to a Kafka request it said {answer}. The port belongs to another "
        "program.",
        f"{CLIENT}, with the port of the broker's listener",
        ("bootstrap.servers={host}:9092",),
    ),
    Fault.VERSIONS: Entry(
        "The broker at {at} and this client have no version of a request in common: {reason}. One of them is years "
        "older than the other: clients of Apache Kafka 4 need a broker of 2.1 or newer, and brokers of Apache Kafka 4 "
        "refuse clients from before 2.1.",
        "for the older side: upgrade it; kafka-python and librdkafka take the broker's version as a hint",
        ("broker.version.fallback=2.1.0",),
    ),
    Fault.REQUEST_FAILED: Entry(
        "The broker at {at} is reached and answers, but a request of a client's way failed: {reason}.",
        "in the log of the broker, around this time, which has the reason",
        ("grep -i error server.log",),
    ),
}
