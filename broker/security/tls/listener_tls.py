"""TLS of the broker's listeners: the certificates in force, and their replacement while connections are open.

A listener's stores are read again when its keys change (AlterConfigs) and when a file changes. New handshakes use the
new contexts; connections that are open keep theirs. Stores that cannot be used change nothing: the former stay in
force, and the reason is returned or logged. As in Apache Kafka, a replacement has the same distinguished name and no
fewer host names, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` allow it, and the certificate of the
listener between brokers must be trusted by its own trust store.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.keys.listener_keys import ListenerSecurity
from sordini.broker.configuration.principal_mapping import MappingError, PrincipalMapping
from sordini.broker.configuration.protection.unserved_protection import TLS
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.ports import Socket
from sordini.broker.network.principal import ANONYMOUS, Principal
from sordini.broker.network.tls_handshakes import HandshakeRefused
from sordini.broker.network.tls_socket import BrokerTlsSocket
from sordini.broker.security.tls.distinguished_name import distinguished_name
from sordini.broker.security.tls.material import ListenerContexts, ReadFile, contexts_of, store_files
from sordini.client.tls.contexts import keep_server_names, reason_of
from sordini.client.tls.tls_socket import SCRATCH_BYTES
from sordini.replication.ports import Clock, Logger

if TYPE_CHECKING:
    from cryptography import x509

DAY_MS: Final = 86_400_000
EXPIRY_WARNING_MS: Final = 30 * DAY_MS

StampOf = Callable[[str], Hashable]
"""What changes when a file changes; None for a file that is not there."""


class ListenerTls:
    """TLS of one listener, at the server's end; and of connections to other brokers through it, at the client's."""

    def __init__(self, security: ListenerSecurity, contexts: ListenerContexts, stamps: Hashable) -> None:
        self.security = security
        self.contexts = contexts
        self.stamps = stamps
        """Of the files, before they were read."""
        self._mapping = PrincipalMapping(security.keys.ssl_principal_mapping_rules)
        self._scratch = bytearray(SCRATCH_BYTES)

    def replace(self, security: ListenerSecurity, contexts: ListenerContexts, stamps: Hashable) -> None:
        """Use other keys and stores from now on."""
        self.security, self.contexts, self.stamps = security, contexts, stamps

    def wrap(self, socket: Socket) -> BrokerTlsSocket:
        return BrokerTlsSocket(socket, self.contexts.server, scratch=self._scratch)

    def connect(self, socket: Socket, host: str) -> BrokerTlsSocket:
        """The client's end of a connection to another broker; the handshake is still to be done."""
        assert self.contexts.client is not None, "the listener between brokers has a context for connections"
        return BrokerTlsSocket(socket, self.contexts.client, host=host, scratch=self._scratch)

    def principal(self, session: ssl.SSLObject) -> Principal:
        encoded = session.getpeercert(binary_form=True)
        if encoded is None:
            return ANONYMOUS
        from cryptography import x509

        try:
            name = distinguished_name(x509.load_der_x509_certificate(encoded).subject)
            return Principal("User", self._mapping.apply(name))
        except MappingError as error:
            raise HandshakeRefused(str(error)) from None
        except ValueError:
            raise HandshakeRefused("the client's certificate has a name that cannot be read") from None


class TlsListeners:
    """All TLS listeners of a broker."""

    def __init__(self, config: Config, read: ReadFile, stamp_of: StampOf, clock: Clock, log: Logger) -> None:
        """Read their stores. Raises ConfigError."""
        self._read = read
        self._stamp_of = stamp_of
        self._clock = clock
        self._log = log
        self._inter_broker = config.inter_broker_listener
        rules = config.advertised_rules
        self._with_server_names = {one.listener for one in rules if one.rule.conditions.server_names}
        self._warned_ms: dict[str, int] = {}
        self._refused: dict[str, tuple[ListenerSecurity, Hashable]] = {}
        """Stores that could not be used: named once."""
        self.by_name: dict[str, ListenerTls] = {}
        self.reloads = 0
        for endpoint in config.endpoints:
            if endpoint.protocol in TLS:
                security = config.listener(endpoint.name)
                stamps = self._stamps(security)
                self.by_name[endpoint.name] = ListenerTls(security, self._contexts(security), stamps)
        self.warn_of_expiry()

    def check(self, config: Config) -> None:
        """Raise ConfigError if the stores that a change of settings names cannot be used."""
        for name, tls in self.by_name.items():
            security = config.listener(name)
            if self._is_changed(tls, security):
                self._replacement(tls, security)

    def refresh(self, config: Config) -> None:
        """Use the stores that the settings name, where they have changed."""
        for name, tls in self.by_name.items():
            security = config.listener(name)
            if self._is_changed(tls, security):
                stamps = self._stamps(security)
                try:
                    contexts = self._replacement(tls, security)
                except ConfigError as error:
                    self._refuse(name, (security, stamps), error)
                else:
                    self._install(tls, security, contexts, stamps)

    async def poll(self, config: Config) -> None:
        """As `refresh`, for files that have changed; they are read beside the loop."""
        for name, tls in self.by_name.items():
            security = config.listener(name)
            stamps = self._stamps(security)
            if not self._is_changed(tls, security) or self._refused.get(name) == (security, stamps):
                continue
            try:
                contexts = await asyncio.to_thread(self._replacement, tls, security)
            except ConfigError as error:
                self._refuse(name, (security, stamps), error)
            else:
                self._install(tls, security, contexts, stamps)
        self.warn_of_expiry()

    def warn_of_expiry(self) -> None:
        """Once a day for a certificate that expires within 30 days."""
        now_ms = self._clock.now_ms()
        for name, tls in self.by_name.items():
            left_ms = tls.contexts.expires_at_s * 1000 - now_ms
            if left_ms < EXPIRY_WARNING_MS and now_ms - self._warned_ms.get(name, -DAY_MS) >= DAY_MS:
                self._warned_ms[name] = now_ms
                event = "TLS certificate has expired" if left_ms <= 0 else "TLS certificate expires soon"
                self._log.warning(event, listener=name, days=left_ms // DAY_MS)

    def _contexts(self, security: ListenerSecurity) -> ListenerContexts:
        contexts = contexts_of(security, self._read, is_inter_broker=security.name == self._inter_broker)
        if contexts.client is not None:
            _check_own_trust(security.name, contexts.server, contexts.client)
        if security.name in self._with_server_names:
            keep_server_names(contexts.server)
        return contexts

    def _replacement(self, tls: ListenerTls, security: ListenerSecurity) -> ListenerContexts:
        contexts = self._contexts(security)
        _check_names(security, tls.contexts.certificate, contexts.certificate)
        return contexts

    def _install(
        self, tls: ListenerTls, security: ListenerSecurity, contexts: ListenerContexts, stamps: Hashable
    ) -> None:
        tls.replace(security, contexts, stamps)
        self.reloads += 1
        self._refused.pop(security.name, None)
        self._warned_ms.pop(security.name, None)
        self._log.info(
            "TLS stores reloaded",
            listener=security.name,
            certificate=distinguished_name(contexts.certificate.subject),
            serial=f"{contexts.certificate.serial_number:x}",
        )

    def _refuse(self, name: str, attempt: tuple[ListenerSecurity, Hashable], error: ConfigError) -> None:
        if self._refused.get(name) != attempt:
            self._refused[name] = attempt
            self._log.warning("TLS stores not reloaded; the former stay in force", listener=name, reason=str(error))

    def _is_changed(self, tls: ListenerTls, security: ListenerSecurity) -> bool:
        return tls.security != security or tls.stamps != self._stamps(security)

    def _stamps(self, security: ListenerSecurity) -> Hashable:
        return tuple((path, self._stamp_of(path)) for path in store_files(security.keys))


def _check_names(security: ListenerSecurity, former: x509.Certificate, new: x509.Certificate) -> None:
    """Raise ConfigError if a certificate may not replace another one."""
    names = distinguished_name(former.subject), distinguished_name(new.subject)
    if names[0] != names[1] and not security.keys.ssl_allow_dn_changes:
        raise ConfigError(
            f"listener {security.name}: the certificate's name {names[1]} is not the former's, {names[0]} "
            "(ssl.allow.dn.changes)"
        )
    missing = _host_names(former) - _host_names(new)
    if missing and not security.keys.ssl_allow_san_changes:
        raise ConfigError(
            f"listener {security.name}: the certificate lacks host names of the former: {', '.join(sorted(missing))} "
            "(ssl.allow.san.changes)"
        )


def _host_names(certificate: x509.Certificate) -> set[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value).lower() for name in names}


def _check_own_trust(name: str, server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> None:
    """Raise ConfigError unless a handshake of this broker with itself succeeds: other brokers would refuse it, too."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checks_host, client_side.check_hostname = client_side.check_hostname, False  # Its host name is not known here.
    try:
        server = server_side.wrap_bio(to_server, to_client, server_side=True)
        client = client_side.wrap_bio(to_client, to_server)
        while not all([_advanced(client), _advanced(server)]):
            if not (to_client.pending or to_server.pending):
                raise ConfigError("its TLS handshake with itself does not end")
    except ssl.SSLError as error:
        raise ConfigError(
            f"listener {name}: its own trust store does not trust its certificate, so that brokers could not connect "
            f"to each other: {reason_of(error)}"
        ) from None
    finally:
        client_side.check_hostname = checks_host


def _advanced(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
