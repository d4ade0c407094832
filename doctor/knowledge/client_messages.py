"""What clients print in each case, so that a search for the message finds the fault. Pure.

Collected by running the clients into the planted faults: `python -m tests.doctor.collect` prints everything, here is
what tells one case from another, and `tests/doctor/test_client_messages.py` runs them again. HOST, PORT and ID stand
for what differs, three dots for text that is left out. The releases: kafka-python 3.0.12, librdkafka 2.16 as
confluent-kafka has it, and Apache Kafka's own client for Java, 4.4.0.

Java's client takes the first bytes of another protocol for a length and allocates as much: with a heap that is large
enough it waits instead of running out of memory.

A client that is not named prints nothing that would help: it retries in silence, or only says that time is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.doctor.faults import Fault

KAFKA_PYTHON, LIBRDKAFKA, JAVA = "kafka-python", "librdkafka", "Java"

_CLOSED_PYTHON: Final = (
    "Connection lost: KafkaConnectionError: socket disconnected",
    "KafkaTimeoutError: Unable to bootstrap from HOST:PORT",
)
_CLOSED_LIBRDKAFKA: Final = (
    "Disconnected: connection closed by peer: receive 0 after POLLIN (... in state APIVERSION_QUERY)"
)
_UNTRUSTED_LIBRDKAFKA: Final = (
    "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not be "
    "verified, verify that ssl.ca.location is correctly configured or root CA certificates are installed"
)
_DISCONNECTED_JAVA: Final = "Bootstrap broker HOST:PORT (id: ID rack: null ...) disconnected"
_NO_METADATA_JAVA: Final = "TimeoutException: Topic ... not present in metadata after ... ms."
_CLOSED_JAVA: Final = (_DISCONNECTED_JAVA, _NO_METADATA_JAVA)
_NO_RESPONSE_JAVA: Final = (
    "TimeoutException: Expiring ... record(s) for ... ms has passed since batch creation. The request has not been "
    "sent, or no server response has been received yet."
)
_REFUSED_JAVA: Final = "Connection to node ID (...) could not be established. Node may not be available."
_LOGIN_JAVA: Final = "Connection to node ID (...) failed authentication due to: "
_HANDSHAKE_JAVA: Final = f"{_LOGIN_JAVA}SSL handshake failed"
_LATE_HANDSHAKE_JAVA: Final = f"{_LOGIN_JAVA}Failed to process post-handshake messages"
_INVALID_JAVA: Final = (
    "PKIX path validation failed: java.security.cert.CertPathValidatorException: validity check failed"
)
_VERIFY_PYTHON: Final = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "

MESSAGES: Final[Mapping[Fault, Mapping[str, tuple[str, ...]]]] = {
    Fault.NAME_UNRESOLVED: {
        KAFKA_PYTHON: ("DNS lookup failed for HOST:PORT, gaierror(", "KafkaConnectionError: DNS Resolution failure"),
        LIBRDKAFKA: ("Failed to resolve 'HOST:PORT': Name or service not known",),
        JAVA: (
            "Couldn't resolve server HOST:PORT from bootstrap.servers as DNS resolution failed for HOST",
            "ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
        ),
    },
    Fault.CONNECTION_REFUSED: {
        KAFKA_PYTHON: (
            "Bootstrap connection to bootstrap-0 failed: KafkaConnectionError: 111 ECONNREFUSED",
            "KafkaTimeoutError: Unable to bootstrap from HOST:PORT",
        ),
        LIBRDKAFKA: ("Connect to ipv4#HOST:PORT failed: Connection refused (... in state CONNECT)",),
        JAVA: (_REFUSED_JAVA, _NO_METADATA_JAVA),
    },
    Fault.CONNECTION_TIMEOUT: {
        KAFKA_PYTHON: ("Bootstrap connection to bootstrap-0 failed: KafkaConnectionError: Connection timed out",),
        LIBRDKAFKA: ('KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}',),
        JAVA: _CLOSED_JAVA,
    },
    Fault.HTTP_SERVER: {
        KAFKA_PYTHON: _CLOSED_PYTHON,
        LIBRDKAFKA: (
            "Receive failed: Invalid response size 1213486160 (0..100000000): increase receive.message.max.bytes",
        ),
        JAVA: ("java.lang.OutOfMemoryError: Java heap space", _NO_METADATA_JAVA),
    },
    Fault.OTHER_PROTOCOL: {
        KAFKA_PYTHON: ("Connection lost: InvalidReceiveError: Invalid frame length: ...",),
        LIBRDKAFKA: ("Receive failed: Invalid response size ... (0..100000000): increase receive.message.max.bytes",),
        JAVA: ("java.lang.OutOfMemoryError: Java heap space", _NO_METADATA_JAVA),
    },
    Fault.CLOSED_UNANSWERED: {
        KAFKA_PYTHON: _CLOSED_PYTHON,
        LIBRDKAFKA: ("Disconnected: connection reset by peer (... in state APIVERSION_QUERY)",),
        JAVA: _CLOSED_JAVA,
    },
    Fault.SILENT: {
        KAFKA_PYTHON: ("[Error 7] RequestTimedOutError: Request timed out after ... ms",),
        LIBRDKAFKA: ('KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}',),
        JAVA: _CLOSED_JAVA,
    },
    Fault.ZOOKEEPER: {KAFKA_PYTHON: _CLOSED_PYTHON, LIBRDKAFKA: (_CLOSED_LIBRDKAFKA,), JAVA: _CLOSED_JAVA},
    Fault.TLS_SPOKEN_PLAIN: {KAFKA_PYTHON: _CLOSED_PYTHON, LIBRDKAFKA: (_CLOSED_LIBRDKAFKA,), JAVA: _CLOSED_JAVA},
    Fault.PLAIN_SPOKEN_TLS: {
        KAFKA_PYTHON: ("KafkaConnectionError: Handshake failed: TLS/SSL connection has been closed (EOF)",),
        LIBRDKAFKA: (
            (
                "SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a PLAINTEXT broker "
                "listener?"
            ),
        ),
        JAVA: (
            (
                "Connection to node ID (...) terminated during authentication. This may happen due to any of the "
                "following reasons: (1) Firewall blocking Kafka TLS traffic (eg it may only allow HTTPS traffic), (2) "
                "Transient network issue."
            ),
        ),
    },
    Fault.CERTIFICATE_NAME: {
        KAFKA_PYTHON: (
            f"{_VERIFY_PYTHON}Hostname mismatch, certificate is not valid for 'HOST'.",
            f"{_VERIFY_PYTHON}IP address mismatch, certificate is not valid for 'HOST'.",
        ),
        LIBRDKAFKA: (_UNTRUSTED_LIBRDKAFKA,),
        JAVA: (
            _HANDSHAKE_JAVA,
            "SSLHandshakeException: No subject alternative DNS name matching HOST found.",
            "SSLHandshakeException: No subject alternative names matching IP address HOST found",
        ),
    },
    Fault.CERTIFICATE_EXPIRED: {
        KAFKA_PYTHON: (f"{_VERIFY_PYTHON}certificate has expired",),
        LIBRDKAFKA: (_UNTRUSTED_LIBRDKAFKA,),
        JAVA: (
            _HANDSHAKE_JAVA,
            _INVALID_JAVA,
            "java.security.cert.CertificateExpiredException: NotAfter: ...",
        ),
    },
    Fault.CERTIFICATE_NOT_YET_VALID: {
        KAFKA_PYTHON: (f"{_VERIFY_PYTHON}certificate is not yet valid",),
        LIBRDKAFKA: (_UNTRUSTED_LIBRDKAFKA,),
        JAVA: (
            _HANDSHAKE_JAVA,
            _INVALID_JAVA,
            "java.security.cert.CertificateNotYetValidException: NotBefore: ...",
        ),
    },
    Fault.CERTIFICATE_UNTRUSTED: {
        KAFKA_PYTHON: (f"{_VERIFY_PYTHON}unable to get local issuer certificate",),
        LIBRDKAFKA: (_UNTRUSTED_LIBRDKAFKA,),
        JAVA: (
            _HANDSHAKE_JAVA,
            (
                "PKIX path building failed: sun.security.provider.certpath.SunCertPathBuilderException: unable to find "
                "valid certification path to requested target"
            ),
        ),
    },
    Fault.TLS_VERSION: {
        KAFKA_PYTHON: ("Handshake failed: [SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version",),
        JAVA: (_HANDSHAKE_JAVA, "SSLHandshakeException: Received fatal alert: protocol_version"),
    },
    Fault.CLIENT_CERTIFICATE_REQUIRED: {
        KAFKA_PYTHON: ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",),
        LIBRDKAFKA: (
            "Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required: SSL alert number 116",
        ),
        JAVA: (_LATE_HANDSHAKE_JAVA, "SSLHandshakeException: Received fatal alert: certificate_required"),
    },
    Fault.CLIENT_CERTIFICATE_REFUSED: {
        KAFKA_PYTHON: ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca",),
        LIBRDKAFKA: ("Receive failed: error:0A000418:SSL routines::tlsv1 alert unknown ca: SSL alert number 48",),
        JAVA: (_LATE_HANDSHAKE_JAVA, "SSLHandshakeException: Received fatal alert: unknown_ca"),
    },
    Fault.SASL_REQUIRED: {
        KAFKA_PYTHON: (
            "Metadata refresh: failed KafkaConnectionError: socket disconnected",
            "Bootstrap attempt to bootstrap-0 failed: KafkaConnectionError: socket disconnected",
        ),
        LIBRDKAFKA: ("Disconnected: connection closed by peer: receive 0 after POLLIN (... in state UP)",),
        JAVA: _CLOSED_JAVA,
    },
    Fault.SASL_NOT_ENABLED: {
        KAFKA_PYTHON: ("SaslHandshake failed: IllegalSaslStateError", "[Error 34] IllegalSaslStateError"),
        LIBRDKAFKA: (
            (
                "SASL PLAIN mechanism handshake failed: Broker: Request not valid in current SASL state: broker's "
                "supported mechanisms:"
            ),
        ),
        JAVA: (
            (
                "IllegalSaslStateException: Unexpected handshake request with client mechanism PLAIN, enabled "
                "mechanisms are []"
            ),
        ),
    },
    Fault.SASL_MECHANISM: {
        KAFKA_PYTHON: (
            "SaslHandshake failed: UnsupportedSaslMechanismError",
            "[Error 33] UnsupportedSaslMechanismError",
        ),
        LIBRDKAFKA: (
            (
                "SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported "
                "mechanisms: PLAIN"
            ),
        ),
        JAVA: (
            (
                "UnsupportedSaslMechanismException: Client SASL mechanism '...' not enabled in the server, enabled "
                "mechanisms are [...]"
            ),
        ),
    },
    Fault.SASL_PASSWORD: {
        KAFKA_PYTHON: (
            "[Error 58] SaslAuthenticationFailedError: ... Authentication failed: Invalid username or password",
        ),
        LIBRDKAFKA: ("SASL authentication error: Authentication failed: Invalid username or password",),
        JAVA: (
            f"{_LOGIN_JAVA}Authentication failed: Invalid username or password",
            "SaslAuthenticationException: Authentication failed: Invalid username or password",
        ),
    },
    Fault.SASL_TOKEN: {
        KAFKA_PYTHON: ('[Error 58] SaslAuthenticationFailedError: ... {"status":"invalid_token"}',),
        LIBRDKAFKA: ('SASL authentication error: {"status":"invalid_token"}',),
        JAVA: (
            'SaslAuthenticationException: {"status":"invalid_token"}',
            "Current clock: ... is later than expiry ... This may indicate a clock skew problem.",
        ),
    },
    Fault.ADVERTISED_UNRESOLVED: {
        KAFKA_PYTHON: (
            "DNS lookup failed for HOST:PORT, gaierror(",
            "KafkaConnectionError: Node ID not ready after ... ms",
            "KafkaTimeoutError: Failed to update metadata after ... secs.",
        ),
        LIBRDKAFKA: ("HOST:PORT/ID: Failed to resolve 'HOST:PORT': Name or service not known",),
        JAVA: (
            "Error connecting to node HOST:PORT (id: ID rack: null ...)",
            "java.net.UnknownHostException: HOST",
            _NO_RESPONSE_JAVA,
        ),
    },
    Fault.ADVERTISED_UNREACHABLE: {
        KAFKA_PYTHON: (
            "Metadata refresh: failed KafkaConnectionError: 111 ECONNREFUSED",
            "KafkaTimeoutError: Failed to update metadata after ... secs.",
        ),
        LIBRDKAFKA: ("HOST:PORT/ID: Connect to ipv4#HOST:PORT failed: Connection refused (... in state CONNECT)",),
        JAVA: (_REFUSED_JAVA, _NO_RESPONSE_JAVA),
    },
    Fault.ADVERTISED_OTHER_LISTENER: {
        KAFKA_PYTHON: (
            "Metadata refresh: failed KafkaConnectionError: socket disconnected",
            "KafkaTimeoutError: Failed to update metadata after ... secs.",
        ),
        LIBRDKAFKA: (f"HOST:PORT/ID: {_CLOSED_LIBRDKAFKA}",),
        JAVA: ("NETWORK_EXCEPTION. Error Message: Disconnected from node ID", _NO_RESPONSE_JAVA),
    },
    Fault.ADVERTISED_OTHER_CLUSTER: {
        LIBRDKAFKA: (
            (
                'Broker HOST:PORT/ID reports different ClusterId "..." than previously known "...": a client must not '
                "be simultaneously connected to multiple clusters"
            ),
        ),
        JAVA: (_NO_RESPONSE_JAVA,),
    },
    Fault.NOT_AUTHORIZED: {
        KAFKA_PYTHON: (
            "[Error 29] TopicAuthorizationFailedError: ...",
            "Fatal Error handling request InitProducerIdRequest: ... [Error 31] ClusterAuthorizationFailedError",
        ),
        LIBRDKAFKA: ('KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="Broker: Topic authorization failed"}',),
        JAVA: (
            "Topic authorization failed for topics [...]",
            "TopicAuthorizationException: Not authorized to access topics: [...]",
        ),
    },
    Fault.WRITE_FAILED: {
        KAFKA_PYTHON: (
            "retrying (inf attempts left): NotEnoughReplicasError",
            "[Error 38] InvalidReplicationFactorError: ...",
        ),
        LIBRDKAFKA: ('KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}',),
        JAVA: ("Error: NOT_ENOUGH_REPLICAS", "InvalidReplicationFactorException: ..."),
    },
    Fault.PARTITIONS_OFFLINE: {
        LIBRDKAFKA: ('KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}',),
    },
}
"""By the fault, then by the client."""
SAME_AS: Final[Mapping[Fault, Fault]] = {Fault.ADVERTISED_LOOPBACK: Fault.ADVERTISED_UNREACHABLE}
"""Faults that clients cannot tell apart: one that connects to its own machine is refused there."""
