"""Faults of certificates, TLS and SASL. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge.entry import BROKER, CLIENT, Entry

_LOGIN_LINE: Final = (
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=... password=...;"
)

ENTRIES: Final[Mapping[Fault, Entry]] = {
    Fault.CERTIFICATE_NAME: Entry(
        "The certificate of {at} is for other names than {host}: {names}. A client compares the name that it connects "
        "to with the names in the certificate (subject alternative names; the common name is not enough) and ends the "
        "connection. The certificate needs every name in advertised.listeners, and every name that clients bootstrap "
        "with.",
        "when the certificate is made; until then, a name that it has, in the client's bootstrap.servers and the "
        "broker's advertised.listeners",
        ("subjectAltName={wanted}", "bootstrap.servers={first_name}:{port}"),
    ),
    Fault.CERTIFICATE_EXPIRED: Entry(
        "The certificate of {at} expired on {until} ({subject}). Connections that are open may go on, and every new "
        "one is refused by the client. If the date is in the future for you, this machine's clock is wrong: it says "
        "{now}.",
        f"{BROKER}: a new certificate; brokers read it at their start",
        ("ssl.keystore.location=/path/to/new-keystore.p12",),
    ),
    Fault.CERTIFICATE_NOT_YET_VALID: Entry(
        "The certificate of {at} is valid only from {since} on ({subject}), and this machine's clock says {now}. "
        "Mostly the clock is wrong here, or was wrong where the certificate was made.",
        "on this machine, if its clock is wrong",
        ("timedatectl set-ntp true",),
    ),
    Fault.CERTIFICATE_UNTRUSTED: Entry(
        "This client does not trust the certificate of {at}: {reason}. It is issued by {issuer}, and that authority "
        "is not in {trust}. The client lacks the authority's certificate, or the broker's key store lacks an "
        "intermediate certificate between its own and the authority's ({sent}).",
        f"{CLIENT}, with the authority that issued the broker's certificate",
        ("ssl.truststore.type=PEM", "ssl.truststore.location=/path/to/ca.pem"),
    ),
    Fault.CERTIFICATE_EXPIRES_SOON: Entry(
        "The certificate of {at} expires on {until}, in {days} days. From then on every new connection fails.",
        f"{BROKER}: a new certificate; brokers read it at their start",
        ("ssl.keystore.location=/path/to/new-keystore.p12",),
        is_note=True,
    ),
    Fault.TLS_VERSION: Entry(
        "{at} speaks TLS, but in no version that this client may use ({reason}). One side allows TLSv1.3 only and the "
        "other TLSv1.2 only: an old Java or OpenSSL, or ssl.enabled.protocols on either side.",
        "on both sides, broker and client",
        ("ssl.enabled.protocols=TLSv1.2,TLSv1.3",),
    ),
    Fault.TLS_HANDSHAKE: Entry(
        "{at} speaks TLS and breaks the handshake off: {reason}. Mostly no cipher suite is in common "
        "(ssl.cipher.suites), or the key of the broker is of a kind that the client's suites cannot use.",
        f"{BROKER}, or in the client's: the suites that TLS chooses by itself",
        ("ssl.cipher.suites=",),
    ),
    Fault.CLIENT_CERTIFICATE_REQUIRED: Entry(
        "The listener at {at} requires a certificate of the client (ssl.client.auth=required), and this client has "
        "none. With TLSv1.3 the client's handshake succeeds and the connection ends with the first response, so that "
        "many clients print only that they were disconnected.",
        f"{CLIENT}: a key with a certificate that the broker trusts",
        ("ssl.keystore.type=PEM", "ssl.keystore.location=/path/to/client-key-and-certificate.pem"),
    ),
    Fault.CLIENT_CERTIFICATE_REFUSED: Entry(
        "The broker at {at} refuses the certificate of this client: {reason}. It was issued by an authority that is "
        "not in the broker's trust store, or it has expired.",
        f"{BROKER}, with the authority of the clients' certificates",
        ("ssl.truststore.location=/path/to/clients-ca.pem",),
    ),
    Fault.SASL_REQUIRED: Entry(
        "The listener at {at} requires a login ({offered}), and this client speaks {protocol}, without one. The broker "
        "answers which versions it knows and closes the connection at the next request, without a reason.",
        CLIENT,
        ("security.protocol={sasl_protocol}", "sasl.mechanism={first_offered}", _LOGIN_LINE),
    ),
    Fault.SASL_NOT_ENABLED: Entry(
        "This client logs in ({protocol}), and the listener at {at} has no logins: it is one of {bare_protocol}. "
        "The broker refuses the handshake of SASL.",
        f"{CLIENT}, or the port of the listener with logins",
        ("security.protocol={bare_protocol}",),
    ),
    Fault.SASL_MECHANISM: Entry(
        "The listener at {at} does not offer the mechanism {mechanism}; it offers {offered}. The client is not asked "
        "for its password.",
        CLIENT + "; or in the broker's server.properties: sasl.enabled.mechanisms={mechanism}",
        ("sasl.mechanism={first_offered}",),
    ),
    Fault.SASL_PASSWORD: Entry(
        "The broker at {at} refuses the login of {user} by {mechanism}: {reason}. The user is unknown there or has "
        "another password; the broker does not say which. With SCRAM a user is known only after it was set in the "
        "cluster, and SCRAM-SHA-256 and SCRAM-SHA-512 are set each by itself.",
        "in the cluster, or the same password in the client's sasl.jaas.config",
        ("sordini users set {user_name} --mechanism {scram_mechanism} --password-file FILE",),
    ),
    Fault.SASL_TOKEN: Entry(
        "The broker at {at} refuses the token of this client (OAUTHBEARER): {reason}. {token}",
        "where the token comes from; what the broker expects is in its server.properties",
        ("sasl.oauthbearer.expected.issuer=...", "sasl.oauthbearer.expected.audience=..."),
    ),
}
