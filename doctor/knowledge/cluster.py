"""Faults that metadata shows, or the requests after it: addresses, controller, partitions, rights, clocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge.entry import BROKER, Entry

_ADVERTISED: Final = "in the server.properties of broker {broker}, with a name that resolves and is reached from here"

ENTRIES: Final[Mapping[Fault, Entry]] = {
    Fault.ADVERTISED_UNRESOLVED: Entry(
        "The bootstrap address works, and the cluster then sends clients to broker {broker} at {at}, whose name does "
        "not resolve on this machine ({reason}). Every client connects once, receives this address, and fails. {hint}",
        _ADVERTISED,
        ("advertised.listeners={protocol}://{bootstrap_host}:{wanted_port}",),
    ),
    Fault.ADVERTISED_LOOPBACK: Entry(
        "The bootstrap address is on another machine, and the cluster sends clients to broker {broker} at {at}: the "
        "loopback address, which is this machine itself. A client connects to itself and is refused, or reaches "
        "another broker that happens to run here.",
        _ADVERTISED,
        ("advertised.listeners={protocol}://{bootstrap_host}:{wanted_port}",),
    ),
    Fault.ADVERTISED_LOOPBACK_LOCAL: Entry(
        "Broker {broker} advertises {at}, the loopback address. Here this works, because the broker is on this "
        "machine; clients on other machines and in containers would connect to themselves.",
        "in the server.properties of broker {broker}, if others are to use it",
        ("advertised.listeners={protocol}://{bootstrap_host}:{wanted_port}",),
        is_note=True,
    ),
    Fault.ADVERTISED_UNREACHABLE: Entry(
        "The bootstrap address works, and the cluster then sends clients to broker {broker} at {at}, where no "
        "connection can be made from here: {reason}. The port is not published or forwarded, it is the port inside "
        "a container, or the broker is down.",
        _ADVERTISED,
        ("advertised.listeners={protocol}://{bootstrap_host}:{wanted_port}",),
    ),
    Fault.ADVERTISED_CONTAINER: Entry(
        "The bootstrap address works, and the cluster then sends clients to broker {broker} at {at}: an address of a "
        "container network, which is not reached from this machine ({reason}). The broker advertises the address of "
        "its container. It needs one listener for other containers and one for the host.",
        "in the server.properties of broker {broker}, or as KAFKA_... variables of its container",
        (
            "listeners=INSIDE://0.0.0.0:29092,OUTSIDE://0.0.0.0:{bootstrap_port}",
            "advertised.listeners=INSIDE://broker:29092,OUTSIDE://{bootstrap_host}:{bootstrap_port}",
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name=INSIDE",
        ),
    ),
    Fault.ADVERTISED_OTHER_LISTENER: Entry(
        "The bootstrap address works with this client's settings ({protocol}), and the cluster then sends clients to "
        "broker {broker} at {at}, where they do not work: {what}. advertised.listeners of that broker has the port of "
        "another listener, or of another program.",
        _ADVERTISED,
        ("advertised.listeners={protocol}://{bootstrap_host}:{wanted_port}",),
    ),
    Fault.ADVERTISED_OTHER_CLUSTER: Entry(
        "The cluster at the bootstrap address ({cluster}) sends clients to broker {broker} at {at}, and what answers "
        "there belongs to another cluster ({other_cluster}). Clients would write to one cluster and read from the "
        "other, or find no topic. Two clusters share a port or a name: a forwarded port, a copied "
        "advertised.listeners.",
        _ADVERTISED,
        ("advertised.listeners={protocol}://{bootstrap_host}:{wanted_port}",),
    ),
    Fault.NO_BROKERS: Entry(
        "The broker at {at} answers and names no broker at all, not even itself, so no client gets further. A broker "
        "learns of the cluster from the controller, which connects to what the broker advertises for its listener "
        "between brokers: a name or an address that the brokers themselves do not reach. With KRaft, brokers that do "
        "not reach the controller are left out. A broker that has only just started says the same for a moment.",
        "in the server.properties of the broker, for the listener of inter.broker.listener.name",
        ("advertised.listeners={listener}://{at}",),
    ),
    Fault.NO_CONTROLLER: Entry(
        "The cluster names no controller. Existing partitions go on, while topics cannot be created and no leader is "
        "elected when a broker fails. With ZooKeeper the brokers have lost it, or /controller is held by the session "
        "of a broker that has ended; with KRaft the quorum has no majority.",
        "on each broker: the coordination store or the quorum that it must reach",
        ("zookeeper.connect=...   (KRaft: controller.quorum.bootstrap.servers=...)",),
    ),
    Fault.PARTITIONS_OFFLINE: Entry(
        "Without a leader: {count} ({examples}). Clients can neither write there nor read. All brokers with an in-sync "
        "replica are down or have lost the disk: {brokers}.",
        "which is first of all to start one of these brokers; only if none can return, at the price of lost records",
        ("sordini configs set --topic {topic} unclean.leader.election.enable=true",),
    ),
    Fault.PARTITIONS_UNDER_REPLICATED: Entry(
        "Not fully in sync: {count} ({examples}). Reading goes on; producers with acks=all "
        "fail with NOT_ENOUGH_REPLICAS where fewer than min.insync.replicas are left, and the next failure may lose a "
        "partition. The replicas that lag are on broker {brokers}: it is down, or too slow to follow.",
        "start that broker; to take it out for good, move its partitions",
        ("sordini cluster status --bootstrap {bootstrap}",),
    ),
    Fault.INTERNAL_REPLICATION: Entry(
        "{key} is {value} and the cluster has {brokers}: the internal topic {topic} cannot be created. Producers "
        "work; {who} wait for a coordinator without an end, mostly without a message.",
        f"{BROKER}, before the topic is created",
        ("{key}={brokers_count}",),
    ),
    Fault.INTERNAL_MIN_ISR: Entry(
        "{key} of the internal topic {topic} is {value}, and its partitions have {replicas}: the coordinator can write "
        "nothing. {who} are refused, or wait without an end; producers work.",
        "{where}",
        ("{remedy}",),
    ),
    Fault.INTERNAL_CLEANUP: Entry(
        "{key} of the internal topic {topic} is {value} and must be {expected}: the cluster removes state that it "
        "still needs. After the next start of its coordinator, {who} begin anew, or get again what they had done.",
        "in the cluster",
        ("sordini configs set --topic {topic} {key}={expected} --bootstrap {bootstrap}",),
    ),
    Fault.NO_COORDINATOR: Entry(
        "The cluster has no coordinator for {who} at present: {reason}. {who_upper} wait without an end. A partition "
        "of the internal topic {topic} has no leader, or the coordinator loads it (minutes with a large topic).",
        "to see which partition has no leader",
        ("sordini topics describe {topic} --bootstrap {bootstrap}",),
    ),
    Fault.NOT_AUTHORIZED: Entry(
        "The cluster answers, and {user} may not {what}: {reason}. Access control denies what no entry allows.",
        "in the cluster, as one of its super users",
        ("sordini acls add --topic {topic} --allow {principal}",),
    ),
    Fault.WRITE_FAILED: Entry(
        "A record cannot be written to a new topic and read again: {reason}. {hint}",
        f"{BROKER}; or for the topic alone, with sordini configs set --topic",
        ("{remedy}",),
    ),
    Fault.CLOCK_DIFFERENCE: Entry(
        "The clock of broker {broker} and the clock of this machine differ by {seconds} s (the broker's is {which}). "
        "Retention by time, searches by timestamp, windows of stream processors and tokens are off by as much, and "
        "with more than five minutes logins by token fail.",
        "on the machine whose clock is wrong",
        ("timedatectl set-ntp true",),
    ),
}
