"""What the process of a registry is started with, and what follows from it. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final

from sordini.client.authentication import MECHANISMS
from sordini.client.security import ClientSecurity
from sordini.registry.journal.membership import GROUP
from sordini.registry.journal.settings import TOPIC
from sordini.system.named_tuple import NamedTuple

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8081
ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - to be compared with.


class WrongSetting(ValueError):
    """Options that do not go together, or a value that is not allowed; the text says what is."""


class RegistrySettings(NamedTuple):
    """The options of `sordini registry`."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    advertised_host: str | None = None
    """By which other registries reach this one; None: as it listens."""
    is_read_only: bool = False
    sasl_mechanism: str | None = None
    """By which visitors log in to the cluster; None: they do not log in."""
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None
    """The file with the authorities that issued the certificates of other registries; None: those of this machine."""
    allows_plain_http: bool = False
    topic: str = TOPIC
    group: str = GROUP
    session_timeout_ms: int = 10_000
    """After so long without a heartbeat another registry is elected."""

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"


def is_this_machine(host: str) -> bool:
    """Whether only this machine reaches what is bound to a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(settings: RegistrySettings, security: ClientSecurity) -> None:
    """Raises WrongSetting for what would serve less protected than the options seem to say."""
    if (settings.certificate is None) != (settings.key is None):
        raise WrongSetting("--tls-certificate and --tls-key: give both or none")
    if settings.sasl_mechanism is not None and settings.sasl_mechanism not in MECHANISMS:
        raise WrongSetting(f"--sasl-login {settings.sasl_mechanism}: allowed are {', '.join(MECHANISMS)}")
    if settings.sasl_mechanism is not None and not security.protocol.startswith("SASL"):
        raise WrongSetting(
            "--sasl-login needs --command-config with security.protocol=SASL_SSL or SASL_PLAINTEXT, and the login of "
            "the registry itself"
        )
    has_login = settings.sasl_mechanism is not None
    if has_login and settings.scheme == "http" and not (is_this_machine(settings.host) or settings.allows_plain_http):
        raise WrongSetting(
            f"--listen {settings.host} is reached from other machines, and passwords would cross the network in plain "
            "text: give --tls-certificate and --tls-key, or --plain-http if something before the registry has TLS"
        )
    if settings.advertised_host in ANY_ADDRESS:
        raise WrongSetting(f"--advertised-host {settings.advertised_host}: allowed is a name or an address")


def advertised_host(settings: RegistrySettings, host_name: str) -> str:
    """By which other registries reach this one; `host_name` is the name of the machine."""
    if settings.advertised_host is not None:
        return settings.advertised_host
    return host_name if settings.host in ANY_ADDRESS else settings.host
