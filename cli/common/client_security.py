"""`--command-config FILE`: how commands connect to a cluster whose listeners are not PLAINTEXT.

The click context holds what the option gave, so that every connection of a command uses it. What the file may say is in
`client/security.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from sordini.client.cluster_core import Login
    from sordini.client.security import ClientSecurity

_META: Final = "sordini.client_security"


def current_security() -> ClientSecurity | None:
    """What --command-config gave to the command that runs; None without it."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_META)


def aiokafka_options() -> dict[str, Any]:
    """The same for aiokafka's clients."""
    security = current_security()
    if security is None:
        return {}
    options: dict[str, Any] = {} if security.protocol == "PLAINTEXT" else {"security_protocol": security.protocol}
    if security.tls is not None:
        options["ssl_context"] = security.tls
    if security.sasl is not None:
        options |= _aiokafka_login(security.sasl)
    return options


def _aiokafka_login(sasl: Login) -> dict[str, Any]:
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
    # Late: TLS libraries and a broker's settings, which a command without this option does not need.
    from sordini.cli.common.security_file import read_client_security

    try:
        ctx.meta[_META] = read_client_security(path)
    except ValueError as error:
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
