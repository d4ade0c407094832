"""`--command-config FILE`: how commands connect to a cluster whose listeners are not PLAINTEXT.

The file is a properties file as Apache Kafka's tools take it: `security.protocol`, the keys `ssl.*`, `sasl.mechanism`
and `sasl.jaas.config`; other keys are skipped. The click context holds what the option gave, so that every connection
of a command uses it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

if TYPE_CHECKING:
    from sordini.client.addresses import Address
    from sordini.client.authentication import SaslCredentials
    from sordini.client.ports import Socket
    from sordini.client.tls.contexts import Context
    from sordini.storage.disk import SystemDisk

_META: Final = "sordini.client_security"
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ClientSecurity(NamedTuple):
    """What the file asks for."""

    protocol: str
    tls: Context | None
    """None without TLS."""
    sasl: SaslCredentials | None = None
    """None without a login."""


def read_client_security(path: str) -> ClientSecurity:
    """Read a properties file and the stores that it names. Raises ConfigError, and OSError for the file itself."""
    from sordini.broker.configuration.settings import ConfigError, read_properties
    from sordini.broker.process.config_loading import resolved, without_provided
    from sordini.storage.disk import SystemDisk

    disk = SystemDisk()
    entries = resolved(read_properties(disk.read(path).decode()), os.environ)
    try:
        return _security_of(entries, disk)
    except ConfigError as error:
        raise without_provided(error, entries) from None


def _security_of(entries: dict[str, str], disk: SystemDisk) -> ClientSecurity:
    from sordini.broker.configuration.security_keys import SecuritySettings
    from sordini.broker.configuration.settings import ConfigError, settings_of
    from sordini.broker.security.tls.material import client_context_of

    protocol = entries.get(_PROTOCOL, "PLAINTEXT").strip()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"{_PROTOCOL}={protocol!r} is not valid: allowed is one of {', '.join(PROTOCOLS)}")
    sasl = _credentials_of(entries) if protocol.startswith("SASL") else None
    if not protocol.endswith("SSL"):
        return ClientSecurity(protocol, None, sasl)
    keys = settings_of(SecuritySettings)
    values = {
        keys[key][0]: keys[key][1].rule.read(key, text)
        for key, text in entries.items()
        if key in keys and key.startswith("ssl.")
    }
    return ClientSecurity(protocol, client_context_of(SecuritySettings(**values), disk.read), sasl)


def _credentials_of(entries: dict[str, str]) -> SaslCredentials:
    """The name and the password of a file. Raises ConfigError, which shows no password."""
    from sordini.broker.configuration.jaas import read_jaas
    from sordini.broker.configuration.settings import ConfigError
    from sordini.client.authentication import MECHANISMS, SaslCredentials

    mechanism = entries.get(_MECHANISM, "")
    if mechanism not in MECHANISMS:
        raise ConfigError(f"{_MECHANISM}={mechanism!r} is not valid: allowed is one of {', '.join(MECHANISMS)}")
    line = read_jaas(_JAAS, entries.get(_JAAS, ""), mechanism)
    if line.username is None or line.password is None:
        raise ConfigError(f"{_JAAS}=(hidden) is not valid: allowed is a line with username and password")
    return SaslCredentials(mechanism, line.username, line.password)


def current_security() -> ClientSecurity:
    """What --command-config gave to the command that runs."""
    context = click.get_current_context(silent=True)
    found: ClientSecurity | None = None if context is None else context.meta.get(_META)
    return ClientSecurity("PLAINTEXT", None) if found is None else found


async def connect_securely(address: Address) -> Socket:
    """A connection to a broker, with TLS if the command has it. Raises OSError."""
    from sordini.client.sockets import connect, start_tls

    tls = current_security().tls
    socket = await connect(address)
    return socket if tls is None else await start_tls(socket, tls, address.host)


def aiokafka_options() -> dict[str, Any]:
    """The same for aiokafka's clients."""
    security = current_security()
    options: dict[str, Any] = {} if security.protocol == "PLAINTEXT" else {"security_protocol": security.protocol}
    if security.tls is not None:
        options["ssl_context"] = security.tls
    if security.sasl is not None:
        options |= {
            "sasl_mechanism": security.sasl.mechanism,
            "sasl_plain_username": security.sasl.username,
            "sasl_plain_password": security.sasl.password,
        }
    return options


def _install(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    from sordini.broker.configuration.settings import ConfigError

    try:
        ctx.meta[_META] = read_client_security(path)
    except (ConfigError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path}: {error}", ctx, parameter) from None
    except OSError as error:
        raise click.BadParameter(f"{path}: {(error.strerror or str(error)).lower()}", ctx, parameter) from None


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    envvar="SORDINI_COMMAND_CONFIG",
    show_envvar=True,
    expose_value=False,
    callback=_install,
    help="A properties file with security.protocol, ssl.*, sasl.mechanism and sasl.jaas.config, as for Apache "
    "Kafka's tools.",
)
