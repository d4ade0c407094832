"""`--command-config FILE`: how commands connect to a cluster whose listeners are not PLAINTEXT.

The file is a properties file as Apache Kafka's tools take it: `security.protocol`, the keys `ssl.*`, `sasl.mechanism`,
`sasl.jaas.config` and `sasl.oauthbearer.token.endpoint.url`; other keys are skipped. The click context holds what the
option gave, so that every connection of a command uses it. The token of OAUTHBEARER is in a file that other programs
renew: it is read for each login.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
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
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a name.
_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_TOKEN_BYTES_MAX: Final = 16_384
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ClientSecurity(NamedTuple):
    """What the file asks for."""

    protocol: str
    tls: Context | None
    """None without TLS."""
    sasl: Callable[[], SaslCredentials] | None = None
    """Gives what to log in with; raises ConfigError and OSError for a file with a token. None without a login."""


def read_client_security(path: str) -> ClientSecurity:
    """Read a properties file and the stores that it names. Raises ConfigError, and OSError for the file itself."""
    from sordini.broker.configuration.settings import ConfigError, decode_properties, read_properties
    from sordini.broker.process.config_loading import resolved, without_provided
    from sordini.storage.disk import SystemDisk

    disk = SystemDisk()
    entries = resolved(read_properties(decode_properties(disk.read(path))), os.environ)
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
    sasl = None
    if protocol.startswith("SASL"):
        sasl = _credentials_of(entries, disk.read)
        sasl()  # A file that is missing is reported now.
    if not protocol.endswith("SSL"):
        return ClientSecurity(protocol, None, sasl)
    keys = settings_of(SecuritySettings)
    values = {
        keys[key][0]: keys[key][1].rule.read(key, text)
        for key, text in entries.items()
        if key in keys and key.startswith("ssl.")
    }
    return ClientSecurity(protocol, client_context_of(SecuritySettings(**values), disk.read), sasl)


def _credentials_of(entries: dict[str, str], read: Callable[[str], bytes]) -> Callable[[], SaslCredentials]:
    """The name and the password of a file, or its token. Raises ConfigError, which shows no password."""
    from sordini.broker.configuration.jaas import read_jaas
    from sordini.broker.configuration.settings import ConfigError
    from sordini.client.authentication import MECHANISMS, OAUTHBEARER, SaslCredentials

    mechanism = entries.get(_MECHANISM, "")
    if mechanism == OAUTHBEARER:
        path = _token_file(entries)
        return lambda: SaslCredentials(OAUTHBEARER, "", _token(path, read(path)))
    if mechanism not in MECHANISMS:
        known = ", ".join((*MECHANISMS, OAUTHBEARER))
        raise ConfigError(f"{_MECHANISM}={mechanism!r} is not valid: allowed is one of {known}")
    line = read_jaas(_JAAS, entries.get(_JAAS, ""), mechanism)
    if line.username is None or line.password is None:
        raise ConfigError(f"{_JAAS}=(hidden) is not valid: allowed is a line with username and password")
    credentials = SaslCredentials(mechanism, line.username, line.password)
    return lambda: credentials


def _token_file(entries: dict[str, str]) -> str:
    """Where the token is. Raises ConfigError."""
    from sordini.broker.configuration.jaas import TOKEN_FILE, read_jaas
    from sordini.broker.configuration.oauthbearer_config import check_file, file_of
    from sordini.broker.configuration.settings import ConfigError
    from sordini.client.authentication import OAUTHBEARER

    url, line = entries.get(_TOKEN_URL, ""), entries.get(_JAAS, "")
    path = read_jaas(_JAAS, line, OAUTHBEARER).token_file if line else None
    if bool(url) == bool(path):
        raise ConfigError(
            f"{_MECHANISM}={OAUTHBEARER} needs one file with a token: allowed is {_TOKEN_URL}=file:///path, or "
            f"{_JAAS} with the option {TOKEN_FILE}"
        )
    if path:
        return path
    if not url.startswith("file:"):
        raise ConfigError(f"{_TOKEN_URL}={url!r} is not valid: allowed is file:///path; no token is requested here")
    check_file(_TOKEN_URL, url)
    return file_of(url)


def _token(path: str, data: bytes) -> str:
    """The token in a file. Raises ConfigError, which shows no part of it."""
    from sordini.broker.configuration.settings import ConfigError

    token = data.decode("ascii", errors="replace").strip()
    if len(data) > _TOKEN_BYTES_MAX or _TOKEN.fullmatch(token) is None:
        raise ConfigError(f"{path} is not valid: allowed is a bearer token, at most {_TOKEN_BYTES_MAX} bytes")
    return token


def current_security() -> ClientSecurity:
    """What --command-config gave to the command that runs."""
    context = click.get_current_context(silent=True)
    found: ClientSecurity | None = None if context is None else context.meta.get(_META)
    return ClientSecurity("PLAINTEXT", None) if found is None else found


async def connect_securely(address: Address) -> Socket:
    """A connection to a broker, with TLS if the command has it. Raises OSError."""
    return await connect_as(current_security(), address)


async def connect_as(security: ClientSecurity, address: Address) -> Socket:
    """A connection to a broker of a cluster that is reached in this way. Raises OSError."""
    from sordini.client.sockets import connect, start_tls

    socket = await connect(address)
    return socket if security.tls is None else await start_tls(socket, security.tls, address.host)


def aiokafka_options() -> dict[str, Any]:
    """The same for aiokafka's clients."""
    security = current_security()
    options: dict[str, Any] = {} if security.protocol == "PLAINTEXT" else {"security_protocol": security.protocol}
    if security.tls is not None:
        options["ssl_context"] = security.tls
    if security.sasl is not None:
        options |= _aiokafka_login(security.sasl)
    return options


def _aiokafka_login(sasl: Callable[[], SaslCredentials]) -> dict[str, Any]:
    from sordini.client.authentication import OAUTHBEARER

    credentials = sasl()
    if credentials.mechanism != OAUTHBEARER:
        return {
            "sasl_mechanism": credentials.mechanism,
            "sasl_plain_username": credentials.username,
            "sasl_plain_password": credentials.password,
        }
    from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return sasl().password

    return {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": Tokens()}


def _install(ctx: click.Context, parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    from sordini.broker.configuration.settings import ConfigError

    try:
        ctx.meta[_META] = read_client_security(path)
    except ConfigError as error:
        raise click.BadParameter(f"{path}: {error}", ctx, parameter) from None
    except OSError as error:
        raise click.BadParameter(f"{path}: {(error.strerror or str(error)).lower()}", ctx, parameter) from None


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    envvar="SORDINI_COMMAND_CONFIG",
    show_envvar=True,
    expose_value=False,
    is_eager=True,  # --bootstrap is compared with it.
    callback=_install,
    help="A properties file with security.protocol, ssl.*, sasl.mechanism, sasl.jaas.config and "
    "sasl.oauthbearer.token.endpoint.url, as for Apache Kafka's tools.",
)
