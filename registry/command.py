"""`sordini registry`: a schema registry, as a process beside a cluster."""

from __future__ import annotations

import sys
from typing import Final

import click

from sordini.admin.failure import Failure
from sordini.broker.process.serving_children import REGISTRY_EXTRA
from sordini.cli.common.listen_address import ListenAddress
from sordini.cli.common.options import ClientCommand, addresses_option
from sordini.client.addresses import parse_bootstrap
from sordini.client.authentication import MECHANISMS
from sordini.client.security import PLAINTEXT, ClientSecurity
from sordini.registry.settings import DEFAULT_HOST, DEFAULT_PORT, RegistrySettings, WrongSetting, check

DEFAULT_LISTEN: Final = f"{DEFAULT_HOST}:{DEFAULT_PORT}"


class RegistryCommand(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "the registry was stopped",
        1: "the registry failed; standard error says why",
        2: "wrong usage",
    }


@click.command(cls=RegistryCommand)
@addresses_option(None, " One of them has to answer within a minute.")
@click.option(
    "--command-config",
    metavar="FILE",
    envvar="SORDINI_COMMAND_CONFIG",
    show_envvar=True,
    help="A properties file with security.protocol, ssl.* and the login of the registry, as for Apache Kafka's tools.",
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="[HOST:]PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Address to listen on. Without HOST it listens on 127.0.0.1; port 0 lets the system choose.",
)
@click.option(
    "--advertised-host",
    metavar="NAME",
    help="By which other registries of the cluster reach this one; by default the HOST of --listen, or the name of "
    "this machine.",
)
@click.option("--read-only", "is_read_only", is_flag=True, help="Refuse all changes, and never be the one that writes.")
@click.option(
    "--sasl-login",
    type=click.Choice(MECHANISMS),
    help="Clients log in (Basic, or Bearer with a token) as users of the cluster, whose access control then decides. "
    "--command-config has the protocol (SASL_SSL or SASL_PLAINTEXT). Without it everyone may do everything.",
)
@click.option("--tls-certificate", metavar="FILE", help="A certificate with its chain (PEM): serve HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Its private key (PEM, not encrypted).")
@click.option(
    "--tls-ca",
    metavar="FILE",
    help="Authorities (PEM) of the certificates of the cluster's other registries; by default those of this machine.",
)
@click.option(
    "--plain-http",
    is_flag=True,
    help="Take logins by HTTP from other machines, because a proxy before the registry has TLS.",
)
@click.option("--topic", metavar="NAME", default="_schemas", show_default=True, help="The topic of its records.")
@click.option(
    "--group",
    metavar="NAME",
    default="schema-registry",
    show_default=True,
    help="The group in which the registries of a topic elect the one that writes.",
)
@click.option(
    "--stop-with-input", is_flag=True, hidden=True, help="Stop when standard input ends: a broker's --registry."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of the log on standard error, which has a line for each request, and for each change.",
)
def registry(
    bootstrap: str,
    command_config: str | None,
    listen: tuple[str, int],
    advertised_host: str | None,
    sasl_login: str | None,
    tls_certificate: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    topic: str,
    group: str,
    log_format: str,
    *,
    is_read_only: bool,
    plain_http: bool,
    stop_with_input: bool,
) -> None:
    """Serve the schemas of a cluster's records, by the REST API of Confluent's Schema Registry.

    It is a process of its own beside any Kafka cluster, with the extra sordini[registry]. Its records are in the topic
    _schemas of the cluster. Several of them beside one cluster elect one that writes, and the others forward to it. One
    line on standard output has the address.

    \b
      sordini registry
      sordini registry --bootstrap kafka-1:9092 --listen 0.0.0.0:8081
      sordini registry --bootstrap kafka-1:9093 --command-config registry.properties --sasl-login SCRAM-SHA-512
    """
    host, port = listen
    settings = RegistrySettings(
        host=host,
        port=port,
        advertised_host=advertised_host,
        is_read_only=is_read_only,
        sasl_mechanism=sasl_login,
        certificate=tls_certificate,
        key=tls_key,
        ca=tls_ca,
        allows_plain_http=plain_http,
        topic=topic,
        group=group,
    )
    security = _security(command_config)
    try:
        check(settings, security)
        addresses = parse_bootstrap(bootstrap)
    except WrongSetting as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.UsageError(f"--bootstrap: {error}") from None
    try:
        from sordini.registry.process import run_registry  # Imported here: --help needs no server, as for the console.
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in REGISTRY_EXTRA.libraries:
            raise
        raise Failure(f"{error.name} is not installed: {REGISTRY_EXTRA.install}") from None
    sys.exit(run_registry(settings, addresses, security, log_format, stops_with_input=stop_with_input))


def _security(path: str | None) -> ClientSecurity:
    if path is None:
        return PLAINTEXT
    from sordini.cli.common.security_file import read_client_security

    try:
        return read_client_security(path)
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise click.UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
