"""What the console's process is told to do, and what follows from it. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final

from sordini.admin.schema_registry.access import RegistryAccess
from sordini.console.records.topic_schemas import TopicSchemas
from sordini.system.named_tuple import NamedTuple

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9080
CHECKPOINTS_MAX: Final = 50
TOKEN_CHARACTERS_MIN: Final = 16
LOCAL_NAME: Final = "localhost"


class WrongSetting(ValueError):
    """Options that do not go together, or a value that is not allowed; the text says what is."""


class ConsoleSettings(NamedTuple):
    """The options of `sordini console`."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    names: tuple[str, ...] = ()
    """Host names, beside addresses and `localhost`, under which browsers reach it."""
    is_read_only: bool | None = None
    """None: as `read_only` decides."""
    sasl_mechanism: str | None = None
    """By which visitors log in to the cluster; None: by the token."""
    token: str | None = None
    certificate: str | None = None
    key: str | None = None
    allows_plain_http: bool = False
    schemas: TopicSchemas = TopicSchemas()
    registry: RegistryAccess | None = None
    registry_as_visitors: bool = False
    """Whether visitors' names and passwords are sent to the registry, too."""
    checkpoints: tuple[str, ...] = ()
    """Places of Spark's checkpoints: directories, or URIs of an object store."""

    @property
    def has_tls(self) -> bool:
        return self.certificate is not None

    @property
    def read_only(self) -> bool:
        """Whether no change is possible: as the option says, else wherever others than this machine can connect."""
        return not is_this_machine(self.host) if self.is_read_only is None else self.is_read_only


def is_this_machine(host: str) -> bool:
    """Whether only this machine reaches what is bound to a host."""
    if host == LOCAL_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(settings: ConsoleSettings) -> None:
    """Raises WrongSetting for what would serve less protected than the options seem to say."""
    if (settings.certificate is None) != (settings.key is None):
        raise WrongSetting("--tls-certificate and --tls-key: give both or none")
    if not is_this_machine(settings.host) and not settings.has_tls and not settings.allows_plain_http:
        raise WrongSetting(
            f"--host {settings.host} is reached from other machines, and passwords would cross the network in plain "
            "text: give --tls-certificate and --tls-key, or --plain-http if something before the console has TLS"
        )
    _check_registry(settings)
    if len(settings.checkpoints) > CHECKPOINTS_MAX:
        raise WrongSetting(f"{len(settings.checkpoints)} of --checkpoint: allowed are {CHECKPOINTS_MAX}")
    if settings.token is not None and settings.sasl_mechanism is not None:
        raise WrongSetting("--token-file and --sasl-login: give one of them")
    if settings.token is not None and len(settings.token) < TOKEN_CHARACTERS_MIN:
        raise WrongSetting(
            f"the token has {len(settings.token)} characters: allowed are {TOKEN_CHARACTERS_MIN} or more"
        )


def is_host_allowed(header: str, settings: ConsoleSettings) -> bool:
    """Whether a request's Host header names this console: an address, `localhost`, or one of the names.

    A page of another site that made its name resolve to this machine (DNS rebinding) sends that name.
    """
    host = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() else header
    host = host.removeprefix("[").removesuffix("]").lower()
    if host in {LOCAL_NAME, settings.host.lower(), *(name.lower() for name in settings.names)}:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _check_registry(settings: ConsoleSettings) -> None:
    if not settings.registry_as_visitors:
        return
    if settings.registry is None or settings.sasl_mechanism is None:
        raise WrongSetting("--registry-as-visitors needs --registry and --sasl-login")
    if settings.registry.authorization is not None:
        raise WrongSetting("--registry-as-visitors and a login of the console to the registry: give one of them")
    address = settings.registry.address
    if not address.has_tls and not is_this_machine(address.host):
        raise WrongSetting(
            f"--registry-as-visitors: passwords would cross the network to {address} in plain text: give a URL of https"
        )
