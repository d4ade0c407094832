"""The names of all faults: what a test compares, a script matches in JSON, and a person searches for. Pure."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    """One thing that may be wrong; the value is its name in the output."""

    # The way to the listener.
    NAME_UNRESOLVED = "name-does-not-resolve"
    CONNECTION_REFUSED = "connection-refused"
    CONNECTION_TIMEOUT = "no-answer-to-connect"
    SOME_ADDRESSES_FAIL = "some-addresses-fail"
    # What listens there.
    HTTP_SERVER = "http-server"
    ZOOKEEPER = "zookeeper-port"
    TLS_SPOKEN_PLAIN = "tls-listener-spoken-plain"
    PLAIN_SPOKEN_TLS = "plain-listener-spoken-tls"
    CLOSED_UNANSWERED = "closes-without-answer"
    SILENT = "accepts-and-stays-silent"
    OTHER_PROTOCOL = "not-a-kafka-broker"
    VERSIONS = "no-version-in-common"
    # TLS.
    CERTIFICATE_NAME = "certificate-for-another-name"
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_YET_VALID = "certificate-not-yet-valid"
    CERTIFICATE_UNTRUSTED = "certificate-not-trusted"
    CERTIFICATE_EXPIRES_SOON = "certificate-expires-soon"
    TLS_VERSION = "no-tls-version-in-common"
    TLS_HANDSHAKE = "tls-handshake-refused"
    CLIENT_CERTIFICATE_REQUIRED = "client-certificate-required"
    CLIENT_CERTIFICATE_REFUSED = "client-certificate-refused"
    # SASL.
    SASL_REQUIRED = "login-required"
    SASL_NOT_ENABLED = "login-not-enabled"
    SASL_MECHANISM = "mechanism-not-offered"
    SASL_PASSWORD = "password-refused"  # noqa: S105 - a name.
    SASL_TOKEN = "token-refused"  # noqa: S105 - a name.
    # What the cluster advertises.
    ADVERTISED_UNRESOLVED = "advertised-name-does-not-resolve"
    ADVERTISED_LOOPBACK = "advertised-loopback"
    ADVERTISED_LOOPBACK_LOCAL = "advertised-loopback-to-this-machine"
    ADVERTISED_UNREACHABLE = "advertised-address-unreachable"
    ADVERTISED_CONTAINER = "advertised-container-network"
    ADVERTISED_OTHER_LISTENER = "advertised-address-is-another-listener"
    ADVERTISED_OTHER_CLUSTER = "advertised-address-is-another-cluster"
    # The cluster.
    NO_BROKERS = "no-broker-in-metadata"
    NO_CONTROLLER = "no-controller"
    PARTITIONS_OFFLINE = "partitions-offline"
    PARTITIONS_UNDER_REPLICATED = "partitions-under-replicated"
    INTERNAL_REPLICATION = "internal-topic-replication-too-high"
    INTERNAL_MIN_ISR = "internal-topic-min-isr-too-high"
    INTERNAL_CLEANUP = "internal-topic-loses-state"
    NO_COORDINATOR = "no-coordinator"
    # The scratch topic.
    NOT_AUTHORIZED = "not-authorized"
    WRITE_FAILED = "write-failed"
    CLOCK_DIFFERENCE = "clock-difference"
    REQUEST_FAILED = "request-failed"

    # A broker's host.
    CONFIG_INVALID = "configuration-refused"
    KEYS_UNKNOWN = "keys-unknown"
    KEYS_IGNORED = "keys-ignored"
    FILE_LIMIT = "file-limit-low"
    DISK_FULL = "disk-nearly-full"
    DISK_READ_ONLY = "disk-read-only"
    DISK_VOLATILE = "disk-in-memory"
    DISK_NETWORK = "disk-over-network"
    DIRECTORY_REFUSED = "log-directory-unusable"
    DIRECTORY_PERMISSION = "log-directory-not-writable"
    DIRECTORY_IN_USE = "log-directory-in-use"
    BROKER_ID_MISMATCH = "broker-id-differs-from-disk"
    PORT_IN_USE = "port-in-use"
    ADDRESS_NOT_LOCAL = "listener-address-not-local"
    PORT_PRIVILEGED = "port-needs-privileges"
    STORE_UNUSABLE = "certificate-store-unusable"
    HOST_CERTIFICATE_EXPIRED = "own-certificate-expired"
    HOST_CERTIFICATE_EXPIRES_SOON = "own-certificate-expires-soon"
    HOST_CERTIFICATE_NAMES = "own-certificate-lacks-advertised-name"
    ZOOKEEPER_UNREACHABLE = "zookeeper-unreachable"
    ZOOKEEPER_NO_CHROOT = "zookeeper-chroot-missing"
    ZOOKEEPER_OTHER_CLUSTER = "zookeeper-has-another-cluster"
    CLOCK_BEHIND_DATA = "clock-behind-data"
    CLOCK_UNSYNCHRONISED = "clock-not-synchronised"
    MEMORY_LOW = "memory-low"
    NO_UVLOOP = "uvloop-missing"
    INTERPRETER_SLOW = "interpreter-not-optimised"
