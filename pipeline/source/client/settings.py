"""How to reach a cluster: Spark's `kafka.*` options, read once, checked whole, and carried to the workers.

The names are those of Apache Kafka's Java consumer, so that a query moves between the JVM source and this one as it
is. Options for what this client does not do (group membership, polling) are accepted and listed in `ignored`; an
unknown name is an error, so that no setting is dropped silently. Certificates and keys are PEM, either as text or as
files that every worker can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from sordini.client.addresses import Address, parse_bootstrap
from sordini.client.authentication import MECHANISMS, OAUTHBEARER, SaslCredentials
from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.client.jaas import read_jaas
from sordini.pipeline.source.client.option_names import IGNORED, REFUSED, suggestion
from sordini.pipeline.source.client.token_options import TOKEN_OPTIONS, read_token_source
from sordini.pipeline.source.client.tokens import TokenSource

PREFIX: Final = "kafka."
_PROTOCOLS: Final = {  # Whether there is TLS, and whether SASL.
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
_INT32_MAX: Final = 2**31 - 1
_PASSWORDS: Final = (
    "ssl.keystore.password",
    "ssl.truststore.password",
)  # Of key stores; PEM files have none.


class Pem(NamedTuple):
    """Certificates or a key: either the text itself, or the path of a file."""

    text: str = ""
    path: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.path)

    def __repr__(self) -> str:
        return f"Pem({self.path!r})" if self.path else "Pem(...)"


NO_PEM: Final = Pem()


@dataclass(frozen=True)
class Tls:
    """Trusted certificates, and the client's own."""

    authorities: Pem = NO_PEM
    """Empty: the trust store of the operating system."""
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    """Empty: the key is in the file of the certificate."""
    key_password: str = field(default="", repr=False)
    checks_host: bool = True


@dataclass(frozen=True)
class Limits:
    """Timeouts, and bounds of a fetch."""

    request_ms: int = 30_000
    """For the response to one request."""
    api_ms: int = 60_000
    """For one call with all its retries; in a read, for the next records."""
    connect_ms: int = 10_000
    backoff_ms: int = 100
    backoff_ms_max: int = 1_000
    fetch_wait_ms: int = 500
    """How long a broker delays the response to a fetch without records."""
    fetch_bytes: int = 4 * 1024 * 1024
    """Of one fetch; a larger batch is returned whole."""


@dataclass(frozen=True)
class ClientSettings:
    """All settings of a `Client`. Can be pickled; its repr has no password."""

    bootstrap: tuple[Address, ...]
    client_id: str = "sordini-spark"
    rack: str = ""
    """The rack of this reader: leaders may name a replica there to read from (KIP-392)."""
    tls: Tls | None = None
    sasl: SaslCredentials | TokenSource | None = None
    limits: Limits = Limits()
    ignored: tuple[str, ...] = ()
    """Options that were given and have no effect on this client."""

    @property
    def user(self) -> str:
        """Who logs in, for error texts; empty without a login."""
        if isinstance(self.sasl, TokenSource):
            return "the token's user"
        return f"user '{self.sasl.username}'" if self.sasl else ""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Parse the options that begin with `kafka.`; names in any case. Raises BadSetting."""
        given = _Options(options)
        bootstrap = tuple(parse_servers(given.text("bootstrap.servers", needed=True)))
        protocol = given.choice("security.protocol", "PLAINTEXT", tuple(_PROTOCOLS))
        has_tls, has_sasl = _PROTOCOLS[protocol]
        tls, sasl = _tls(given), _sasl(given)
        if sasl is None and has_sasl:
            raise BadSetting(
                f"kafka.security.protocol is {protocol}: it needs kafka.sasl.jaas.config, or kafka.sasl.username "
                "and kafka.sasl.password, or kafka.sasl.mechanism=OAUTHBEARER with a source of tokens"
            )
        client = cls(
            bootstrap=bootstrap,
            client_id=given.text("client.id", cls.client_id),
            rack=given.text("client.rack"),
            tls=tls if has_tls else None,
            sasl=sasl if has_sasl else None,
            limits=_limits(given),
            ignored=given.ignored(),
        )
        given.refuse_the_rest()
        return client


def parse_servers(bootstrap: str) -> list[Address]:
    """Read `kafka.bootstrap.servers`: `HOST:PORT,HOST:PORT`, also `PLAINTEXT://HOST:PORT`. Raises BadSetting."""
    if not bootstrap.strip(", "):
        raise BadSetting("kafka.bootstrap.servers names no broker: give HOST:PORT, separated by commas")
    try:
        return parse_bootstrap(bootstrap)
    except ValueError as error:
        raise BadSetting(f"kafka.bootstrap.servers: {error}") from None


class _Options:
    """The given options without their prefix; tracks which of them were read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        lowered = {name.lower(): str(value) for name, value in options.items()}
        self._values = {name.removeprefix(PREFIX): value for name, value in lowered.items() if name.startswith(PREFIX)}
        self._known: set[str] = set()

    def text(self, name: str, default: str = "", *, needed: bool = False) -> str:
        self._known.add(name)
        value = self._values.get(name, default)
        if needed and not value.strip():
            raise BadSetting(f"the option kafka.{name} is missing")
        return value

    def is_given(self, name: str) -> bool:
        return name in self._values

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default).strip().upper()
        if value not in choices:
            raise BadSetting(f"kafka.{name} is {value!r}: this client knows {', '.join(choices)}")
        return value

    def number(self, name: str, default: int, minimum: int = 1) -> int:
        value = self.text(name, str(default)).strip()
        if not value.isascii() or not value.isdecimal() or not minimum <= int(value) <= _INT32_MAX:
            raise BadSetting(f"kafka.{name} is {value!r}, which is no whole number of {minimum} or more")
        return int(value)

    def pem(self, text: str, *paths: str) -> Pem:
        """PEM under the name of its text or one of those of its file."""
        found = [Pem(text=self.text(text)), *(Pem(path=self.text(path)) for path in paths)]
        given = [pem for pem in found if pem]
        if len(given) > 1:
            names = ", ".join(f"kafka.{name}" for name in (text, *paths) if self.is_given(name))
            raise BadSetting(f"only one of these can be given: {names}")
        return given[0] if given else NO_PEM

    def ignored(self) -> tuple[str, ...]:
        found = tuple(sorted(name for name in self._values if name in IGNORED))
        self._known.update(found)
        return found

    def refuse_the_rest(self) -> None:
        for name in sorted(self._values.keys() - self._known):
            reason = REFUSED.get(name) or f"no Kafka client has such an option{suggestion(name, self._known)}"
            raise BadSetting(f"kafka.{name}: {reason}")


def _limits(given: _Options) -> Limits:
    plain = Limits()
    request_ms = given.number("request.timeout.ms", plain.request_ms)
    partition_bytes = given.number("max.partition.fetch.bytes", plain.fetch_bytes)
    return Limits(
        request_ms=request_ms,
        api_ms=given.number("default.api.timeout.ms", max(plain.api_ms, request_ms)),
        connect_ms=given.number("socket.connection.setup.timeout.ms", plain.connect_ms),
        backoff_ms=given.number("retry.backoff.ms", plain.backoff_ms, 0),
        backoff_ms_max=given.number("retry.backoff.max.ms", plain.backoff_ms_max, 0),
        fetch_wait_ms=given.number("fetch.max.wait.ms", plain.fetch_wait_ms, 0),
        fetch_bytes=min(partition_bytes, given.number("fetch.max.bytes", _INT32_MAX)),
    )


def _tls(given: _Options) -> Tls:
    for store in ("truststore", "keystore"):
        kind = given.text(f"ssl.{store}.type", "PEM").strip().upper()
        is_store = given.text(f"ssl.{store}.location").lower().endswith((".jks", ".p12", ".pfx", ".keystore"))
        if kind != "PEM" or (is_store and not given.is_given(f"ssl.{store}.type")):
            raise BadSetting(
                f"kafka.ssl.{store}.type must be PEM, other key stores can only be read by Java: `keytool "
                "-importkeystore -deststoretype PKCS12` and then `openssl pkcs12 -nodes` make PEM of one"
            )
    for name in _PASSWORDS:
        given.text(name)
    algorithm = given.choice("ssl.endpoint.identification.algorithm", "HTTPS", ("HTTPS", ""))
    return Tls(
        authorities=given.pem("ssl.truststore.certificates", "ssl.truststore.location", "ssl.ca.location"),
        certificate=given.pem("ssl.keystore.certificate.chain", "ssl.keystore.location", "ssl.certificate.location"),
        key=given.pem("ssl.keystore.key", "ssl.key.location"),
        key_password=given.text("ssl.key.password"),
        checks_host=algorithm == "HTTPS",
    )


def _sasl(given: _Options) -> SaslCredentials | TokenSource | None:
    mechanism = given.text("sasl.mechanism", "").strip().upper()
    if mechanism == OAUTHBEARER or any(given.is_given(name) for name in TOKEN_OPTIONS):
        return _tokens(given, mechanism)
    jaas = given.text("sasl.jaas.config")
    username, password = given.text("sasl.username"), given.text("sasl.password")
    if jaas:
        if username or password:
            raise BadSetting("kafka.sasl.jaas.config goes without kafka.sasl.username and kafka.sasl.password")
        wanted, username, password = read_jaas(jaas)
        mechanism = mechanism or wanted
        if mechanism.partition("-")[0] != wanted.partition("-")[0]:
            raise BadSetting(f"kafka.sasl.mechanism is {mechanism}: the module in kafka.sasl.jaas.config is {wanted}'s")
    elif not username:
        return None
    if mechanism not in MECHANISMS:
        known = ", ".join((*MECHANISMS, OAUTHBEARER))
        raise BadSetting(f"kafka.sasl.mechanism is {mechanism!r}: this client knows {known}")
    return SaslCredentials(mechanism, username, password)


def _tokens(given: _Options, mechanism: str) -> TokenSource:
    if mechanism != OAUTHBEARER:
        name = next(name for name in TOKEN_OPTIONS if given.is_given(name))
        raise BadSetting(f"kafka.{name} is an option of kafka.sasl.mechanism=OAUTHBEARER, which is {mechanism!r}")
    for name in ("sasl.username", "sasl.password"):
        if given.is_given(name):
            raise BadSetting(f"kafka.{name}: a token names the user of OAUTHBEARER")
    values = {name: given.text(name).strip() for name in TOKEN_OPTIONS}
    argument = given.text("sasl.oauthbearer.config") if given.is_given("sasl.oauthbearer.config") else None
    return read_token_source(values, argument, given.text("sasl.jaas.config"))
