"""Faults of a broker's machine and of its configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge.entry import Entry

_FILE: Final = "in {at}"
_PROPERTIES: Final = "in server.properties"

ENTRIES: Final[Mapping[Fault, Entry]] = {
    Fault.CONFIG_INVALID: Entry(
        "A broker with this file does not start: {reason}. The value, or the combination of values, is not allowed.",
        f"{_FILE}, with a value that docs/configuration.md allows",
        ("{key}=...",),
    ),
    Fault.KEYS_UNKNOWN: Entry(
        "Some keys are known neither here nor to Apache Kafka and have no effect: {keys}. {hint}",
        f"{_FILE}: the right spelling, or no such line",
        ("{line}",),
        is_note=True,
    ),
    Fault.KEYS_IGNORED: Entry(
        "Some keys of Apache Kafka have no effect in this broker: {keys}. They are accepted, so that a file can be "
        "taken over as it is; docs/configuration.md says what is served.",
        f"{_FILE}, if the lines should not mislead a reader",
        ("#{key}=...",),
        is_note=True,
    ),
    Fault.FILE_LIMIT: Entry(
        "A process may open {limit} files here, and this broker may need {needed}: segments with their indexes, and "
        "connections. At the limit new connections are refused and segments are closed and opened again and again.",
        "in the broker's systemd unit (or docker run --ulimit nofile=100000:100000)",
        ("LimitNOFILE=100000",),
    ),
    Fault.DISK_FULL: Entry(
        "The disk of {at} is nearly full: {free}, and less than {needed} is too little: two segments of {segment}, or "
        "a twentieth of the disk. A broker whose disk is full takes the log directory offline and leads nothing there.",
        f"{_PROPERTIES}, so that old records go sooner; or a larger disk",
        ("log.retention.hours=24", "log.retention.bytes=1073741824"),
    ),
    Fault.DISK_READ_ONLY: Entry(
        "{at} is on a file system that is mounted read-only. Linux remounts a disk so after an input/output error: the "
        "kernel's log (dmesg) then names the disk. In a container the volume may be mounted with :ro.",
        "as root, once the disk is sound; or another directory in server.properties",
        ("mount -o remount,rw {above}", "{key}=/path/on/a/writable/disk"),
    ),
    Fault.DISK_VOLATILE: Entry(
        "{at} is on {kind}: its records are lost {lost}. For tests this is fine.",
        f"{_PROPERTIES}, if records are to be kept",
        ("{key}=/var/lib/sordini",),
        is_note=True,
    ),
    Fault.DISK_NETWORK: Entry(
        "{at} is on a network file system ({kind}). A flush does not mean there what a log relies on, locks may be "
        "missing, and a stall of the network stalls the broker.",
        f"{_PROPERTIES}, with a local disk",
        ("{key}=/var/lib/sordini",),
        is_note=True,
    ),
    Fault.DIRECTORY_REFUSED: Entry(
        "{at} cannot be a log directory: {reason}. A broker with this file does not start.",
        _PROPERTIES,
        ("{key}=/var/lib/sordini",),
    ),
    Fault.DIRECTORY_PERMISSION: Entry(
        "The user {user} may not write in {above}, where the log directory {at} is to be. If the broker runs as "
        "another user, examine as that user: sudo -u USER sordini doctor --broker FILE.",
        "as root",
        ("chown -R {user} {above}",),
    ),
    Fault.DIRECTORY_IN_USE: Entry(
        "A broker already runs on {at}: {process}. If it is the broker of this file, all is as it should be; a second "
        "one with the same directory refuses to start.",
        "for a second broker, in its server.properties",
        ("{key}=/another/directory",),
        is_note=True,
    ),
    Fault.BROKER_ID_MISMATCH: Entry(
        "server.properties says broker.id={given}, and the data in {at} is that of broker {there} (meta.properties). "
        "The broker does not start: it would offer the partitions of another one. The disk of another broker is "
        "mounted, or the file was copied.",
        f"{_PROPERTIES}, or the right disk at that path",
        ("broker.id={there}",),
    ),
    Fault.PORT_IN_USE: Entry(
        "The listener {listener} cannot be opened: its port is in use by {holder}. A broker with this file does not "
        "start.",
        f"{_PROPERTIES}; or end that process",
        ("listeners={name}://{host}:{free_port}",),
    ),
    Fault.ADDRESS_NOT_LOCAL: Entry(
        "The listener {listener} cannot be opened: {reason}. `listeners` has the addresses of this machine; a name or "
        "an address that clients use from elsewhere (a load balancer, a public address, a container's host) belongs "
        "into advertised.listeners.",
        _PROPERTIES,
        ("listeners={name}://0.0.0.0:{port}", "advertised.listeners={name}://{host}:{port}"),
    ),
    Fault.PORT_PRIVILEGED: Entry(
        "The listener {listener} cannot be opened: ports below 1024 need root, or the capability CAP_NET_BIND_SERVICE.",
        f"{_PROPERTIES}; or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit",
        ("listeners={name}://{host}:9092",),
    ),
    Fault.STORE_UNUSABLE: Entry(
        "The certificate of listener {at} cannot be used: {reason}. A broker with this file does not start.",
        f"{_PROPERTIES}: a store with a private key and the certificate that belongs to it, and its password",
        ("listener.name.{name}.ssl.keystore.location=/path/to/keystore.p12",),
    ),
    Fault.HOST_CERTIFICATE_EXPIRED: Entry(
        "The certificate of listener {at} expired on {until}. The broker starts, and every client refuses it.",
        f"{_PROPERTIES}: a new one; it is read at the start",
        ("listener.name.{name}.ssl.keystore.location=/path/to/new-keystore.p12",),
    ),
    Fault.HOST_CERTIFICATE_EXPIRES_SOON: Entry(
        "The certificate of listener {at} expires on {until}, in {days} days.",
        f"{_PROPERTIES}: a new one; it is read at the start",
        ("listener.name.{name}.ssl.keystore.location=/path/to/new-keystore.p12",),
        is_note=True,
    ),
    Fault.HOST_CERTIFICATE_NAMES: Entry(
        "Listener {at} sends clients to {host}, and its certificate is for other names: {names}. Clients that compare "
        "them, which is the default, refuse the connection.",
        "when the certificate is made",
        ("subjectAltName={wanted}",),
    ),
    Fault.ZOOKEEPER_UNREACHABLE: Entry(
        "ZooKeeper at {at} does not answer within {seconds} s: {reason}. A broker with this file waits for it, and "
        "then ends. ZooKeeper does not run, another port is meant, or a firewall is between.",
        f"{_PROPERTIES}, or start ZooKeeper there",
        ("zookeeper.connect=zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181/kafka",),
    ),
    Fault.ZOOKEEPER_NO_CHROOT: Entry(
        "The data on this machine is of cluster {cluster}, and ZooKeeper has no cluster at {chroot}. The chroot is "
        "missing or misspelt in zookeeper.connect (it stands once, behind the last address), or ZooKeeper has lost its "
        "data (docs/recovery.md). The broker refuses to start, rather than create a second, empty cluster.",
        _PROPERTIES,
        ("zookeeper.connect={hosts}/kafka",),
    ),
    Fault.ZOOKEEPER_OTHER_CLUSTER: Entry(
        "The data on this machine is of cluster {cluster}, and ZooKeeper has another one at {chroot}: {other}. The "
        "broker refuses to start: records of two clusters would be mixed. Another ensemble or another chroot is meant.",
        _PROPERTIES,
        ("zookeeper.connect={hosts}/the-chroot-of-this-cluster",),
    ),
    Fault.CLOCK_BEHIND_DATA: Entry(
        "Files in {at} were written {hours} hours in the future, by this machine's clock. The clock is behind, or was "
        "ahead before: retention by time and searches by timestamp are off by as much.",
        "on this machine",
        ("timedatectl set-ntp true",),
    ),
    Fault.CLOCK_UNSYNCHRONISED: Entry(
        "No time service keeps this machine's clock (the kernel reports it as not synchronised). It drifts by seconds "
        "a day, and with it retention, timestamps and tokens. In a virtual machine the host may keep it all the same.",
        "on this machine",
        ("timedatectl set-ntp true",),
        is_note=True,
    ),
    Fault.MEMORY_LOW: Entry(
        "{available} of memory are available, and this broker may need {needed}: itself, and requests of clients up to "
        "{requests} (queued.max.request.bytes). Beyond that the system ends the process.",
        _PROPERTIES,
        ("queued.max.request.bytes={lower}",),
    ),
    Fault.NO_UVLOOP: Entry(
        "uvloop is not installed for {python}: the broker runs on asyncio's own loop, which needs about twice the "
        "processor time for each request.",
        "in the broker's environment",
        ("{python} -m pip install uvloop",),
        is_note=True,
    ),
    Fault.INTERPRETER_SLOW: Entry(
        "{at} was built without profile-guided optimisation: the same requests need 6 to 19 % more processor time.",
        "in the broker's environment: a Python built with --enable-optimizations, as those of distributions are",
        ("docker run python:3.13-slim",),
        is_note=True,
    ),
}
