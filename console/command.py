"""`sordini console`: the page on a cluster, as a process beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sordini.admin.failure import Failure
from sordini.broker.process.serving_children import CONSOLE_EXTRA
from sordini.cli.common.options import ClientCommand, addresses_option
from sordini.cli.common.registry_options import RegistryOptions, registry_options
from sordini.cli.common.terminal import echo
from sordini.client.addresses import listener_names, parse_bootstrap
from sordini.client.authentication import MECHANISMS
from sordini.client.security import PLAINTEXT, PROTOCOLS, ClientSecurity
from sordini.console.records.topic_schemas import TopicSchemas, read_schemas
from sordini.console.settings import DEFAULT_HOST, DEFAULT_PORT, ConsoleSettings, WrongSetting, check
from sordini.schemas.codecs import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sordini.admin.schema_registry.access import RegistryAccess
    from sordini.client.addresses import Address


class ConsoleCommand(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "the console was stopped",
        1: "the console failed; standard error says why",
        2: "wrong usage",
    }


@click.command(cls=ConsoleCommand)
@addresses_option(None, " They need not run yet.")
@click.option(
    "--command-config",
    metavar="FILE",
    envvar="SORDINI_COMMAND_CONFIG",
    show_envvar=True,
    help="A properties file with security.protocol, ssl.*, and without --sasl-login the principal of the console, as "
    "for Apache Kafka's tools.",
)
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, help="0 lets the system choose."
)
@click.option(
    "--host-name",
    "names",
    metavar="NAME",
    multiple=True,
    help="A name under which browsers reach the console; addresses and localhost need none. Can be repeated.",
)
@click.option(
    "--read-only/--allow-changes",
    "is_read_only",
    default=None,
    help="Refuse all changes. The default where other machines reach the console; on this machine changes are allowed.",
)
@click.option(
    "--sasl-login",
    type=click.Choice(MECHANISMS),
    help="Visitors log in with a user of the cluster, whose access control then decides. --command-config has the "
    "protocol (SASL_SSL or SASL_PLAINTEXT). Without it they log in with a token.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="The token to log in with; by default a new one is made and printed at each start.",
)
@click.option("--tls-certificate", metavar="FILE", help="A certificate with its chain (PEM): serve HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Its private key (PEM, not encrypted).")
@click.option(
    "--plain-http",
    is_flag=True,
    help="Serve HTTP to other machines, because a proxy before the console has TLS.",
)
@click.option(
    "--schema",
    "schemas",
    metavar="TOPIC=KIND:FILE[:MESSAGE]",
    multiple=True,
    help="Show the values of a topic by the schema in a file; KIND is avro, protobuf or json-schema. Can be repeated. "
    "Needs sordini[schemas].",
)
@click.option(
    "--key-schema",
    "key_schemas",
    metavar="TOPIC=KIND:FILE[:MESSAGE]",
    multiple=True,
    help="As --schema, of the topic's keys.",
)
@registry_options(
    "Show keys and values by the schemas of this registry, whose ids are in front of them. Needs sordini[schemas]."
)
@click.option(
    "--registry-as-visitors",
    "is_registry_as_visitors",
    is_flag=True,
    help="Log in to the registry as each visitor, with the name and password of --sasl-login: one of `sordini registry "
    "--sasl-login` beside the same cluster shows what that user may read.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    metavar="DIR",
    multiple=True,
    help="Show the lag of a query of Spark, by its checkpoint: a directory, or a URI such as s3://bucket/checkpoint. "
    "Can be repeated.",
)
@click.option(
    "--stop-with-input", is_flag=True, hidden=True, help="Stop when standard input ends: a broker's --console."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of the log on standard error, which has a line for each login and each change.",
)
def console(
    bootstrap: str,
    command_config: str | None,
    names: tuple[str, ...],
    token_file: str | None,
    log_format: str,
    schemas: tuple[str, ...],
    key_schemas: tuple[str, ...],
    checkpoints: tuple[str, ...],
    registry: RegistryOptions,
    *,
    stop_with_input: bool,
    **options: str | int | bool | None,
) -> None:
    """Show a cluster in the browser: brokers, topics, records, groups, transactions, access; and change it there.

    It is a process of its own beside any Kafka cluster, with the extra sordini[console]. It sends requests to the
    cluster only, and keeps nothing. One line on standard output has the address to open.

    \b
      sordini console
      sordini console --bootstrap kafka-1:9092 --read-only
      sordini console --bootstrap kafka-1:9093 --command-config tls.properties --sasl-login SCRAM-SHA-512
    """
    settings = _settings(options, names, token_file, checkpoints, registry.access())._replace(
        schemas=_schemas(key_schemas, schemas)
    )
    security = _security(command_config, has_login=settings.sasl_mechanism is None)
    if settings.sasl_mechanism is not None and not security.protocol.startswith("SASL"):
        raise click.UsageError("--sasl-login needs --command-config with security.protocol=SASL_SSL or SASL_PLAINTEXT")
    addresses = _addresses(bootstrap, security)
    try:
        from sordini.console.process import run_console  # Imported here: --help needs no server, and the extra is one.
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in CONSOLE_EXTRA.libraries:
            raise
        raise Failure(f"{error.name} is not installed: {CONSOLE_EXTRA.install}") from None
    sys.exit(run_console(settings, addresses, security, log_format, stops_with_input=stop_with_input))


def _settings(
    options: dict[str, str | int | bool | None],
    names: tuple[str, ...],
    token_file: str | None,
    checkpoints: tuple[str, ...],
    registry: RegistryAccess | None,
) -> ConsoleSettings:
    given = ConsoleSettings(
        host=str(options["host"]),
        port=int(options["port"] or 0),
        names=names,
        is_read_only=None if options["is_read_only"] is None else bool(options["is_read_only"]),
        sasl_mechanism=_text(options["sasl_login"]),
        token=None if token_file is None else _token(token_file),
        certificate=_text(options["tls_certificate"]),
        key=_text(options["tls_key"]),
        allows_plain_http=bool(options["plain_http"]),
        checkpoints=checkpoints,
        registry=registry,
        registry_as_visitors=bool(options["is_registry_as_visitors"]),
    )
    try:
        check(given)
    except WrongSetting as error:
        raise click.UsageError(str(error)) from None
    return given


def _schemas(keys: Iterable[str], values: Iterable[str]) -> TopicSchemas:
    try:
        return TopicSchemas(read_schemas(keys, "--key-schema"), read_schemas(values, "--schema"))
    except SchemaError as error:
        raise Failure(str(error)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _text(value: str | int | bool | None) -> str | None:  # noqa: FBT001 - as click has it.
    return None if value is None else str(value)


def _token(path: str) -> str:
    from sordini.cli.common.input_files import read_text

    return read_text(path).strip()


def _security(path: str | None, *, has_login: bool) -> ClientSecurity:
    if path is None:
        return PLAINTEXT
    from sordini.cli.common.security_file import read_client_security

    try:
        return read_client_security(path, has_login=has_login)
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise click.UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _addresses(bootstrap: str, security: ClientSecurity) -> list[Address]:
    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.UsageError(f"--bootstrap: {error}") from None
    for name in listener_names(bootstrap):
        if name in PROTOCOLS and name != security.protocol:
            echo(
                f"Notice: {bootstrap!r} names a listener of {name}, and the console connects by {security.protocol}.",
                err=True,
            )
    return addresses
