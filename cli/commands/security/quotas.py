"""`sordini quotas`: list, set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import Client, ClientGroup, client_options, report_each, report_rows

DEFAULT_NAME: Final = "default"
KEYS: Final = {
    "producer_byte_rate": "produce",
    "consumer_byte_rate": "consume",
    "request_percentage": "request_time",
    "controller_mutation_rate": "mutations",
    "connection_creation_rate": "connections",
}
"""Each quota's key, and the option of this command that sets it."""
_UNITS: Final = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of a core",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s",
}


@click.group(cls=ClientGroup)
def quotas() -> None:
    """List, set and remove quotas of users, client ids and addresses.

    A client above its quota is not refused: its connection is muted for a while, and the response says for how long.
    The most specific quota counts: that of a user with a client id comes before that of the user, and so on;
    `--user default` is for all users without a quota of their own.

    \b
      sordini quotas list
      sordini quotas set --user alice --produce 1000000
      sordini quotas remove --user alice
    """


def _entity_options(command: Callable[..., None]) -> Callable[..., None]:
    for name, meaning in (
        ("--address", "An address; `default` for all others."),
        ("--client-id", "A client id; `default` for all others."),
        ("--user", "A user, as clients log in; `default` for all others."),
    ):
        command = click.option(name, metavar="NAME", help=meaning)(command)
    return command


@quotas.command("list")
@_entity_options
@client_options
def list_(client: Client, user: str | None, client_id: str | None, address: str | None) -> None:
    """List quotas, of all or of those with this user, client id or address.

    \b
      sordini quotas list
      sordini quotas list --user alice
    """
    from sordini.admin.security.quota_requests import list_quotas

    named = {kind: name for kind, name in _named(user, client_id, address).items() if name is not None}
    rows = client.run(lambda cluster: list_quotas(cluster, named))
    report_rows(
        client,
        rows,
        ["OF", "QUOTA", "VALUE"],
        lambda row: [_text(row["entity"]), row["quota"], _amount(row["quota"], row["value"])],
        "There are no quotas. `sordini quotas set` makes one.",
    )


@quotas.command("set")
@_entity_options
@click.option("--produce", type=click.IntRange(1), metavar="BYTES", help="Bytes of Produce requests per second.")
@click.option("--consume", type=click.IntRange(1), metavar="BYTES", help="Bytes of Fetch responses per second.")
@click.option(
    "--request-time", type=click.FloatRange(0, min_open=True), metavar="PERCENT", help="Time of one core, in percent."
)
@click.option(
    "--mutations",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Partitions created and deleted per second.",
)
@click.option("--connections", type=click.IntRange(1), metavar="N", help="Connections per second, of an address.")
@client_options
def set_(client: Client, user: str | None, client_id: str | None, address: str | None, **values: float | None) -> None:
    """Set quotas of a user, a client id, both, or an address. Other quotas of it stay.

    \b
      sordini quotas set --user alice --produce 1000000 --consume 2000000
      sordini quotas set --client-id default --request-time 50
      sordini quotas set --address default --connections 10
    """
    wanted = {key: values[option] for key, option in KEYS.items() if values[option] is not None}
    if not wanted:
        options = ", ".join(f"--{option.replace('_', '-')}" for option in KEYS.values())
        raise Failure(f"there is no quota to set: give at least one of {options}")
    _alter(client, _entity(user, client_id, address), wanted)


@quotas.command()
@_entity_options
@click.option(
    "--quota",
    "keys",
    metavar="KEY",
    type=click.Choice(list(KEYS)),
    multiple=True,
    help="Only this one, by its key as `list` shows it. Can be repeated.",
)
@client_options
def remove(
    client: Client, user: str | None, client_id: str | None, address: str | None, *, keys: tuple[str, ...]
) -> None:
    """Remove quotas of a user, a client id, both, or an address: a less specific one counts, if there is one.

    \b
      sordini quotas remove --user alice
      sordini quotas remove --user alice --quota producer_byte_rate
    """
    entity = _entity(user, client_id, address)
    names = keys or (("connection_creation_rate",) if "ip" in entity else tuple(KEYS)[:4])
    _alter(client, entity, dict.fromkeys(names))


def _alter(client: Client, entity: Mapping[str, str | None], values: Mapping[str, float | None]) -> None:
    from sordini.admin.security.quota_requests import alter_quotas

    def line(row: Mapping[str, Any]) -> str:
        return f"{_text(row['entity'])}: {row['quota']} is {_amount(row['quota'], row['value'])}"

    rows = client.run(lambda cluster: alter_quotas(cluster, entity, values))
    report_each(client, rows, line)


def _amount(key: str, value: float | None) -> str:
    return "not limited" if value is None else f"{value:,.15g} {_UNITS.get(key, '')}".strip()


def _named(user: str | None, client_id: str | None, address: str | None) -> dict[str, str | None]:
    return {"user": user, "client-id": client_id, "ip": address}


def _entity(user: str | None, client_id: str | None, address: str | None) -> dict[str, str | None]:
    """The parts that are named; None for the default. Raises Failure."""
    named = {kind: name for kind, name in _named(user, client_id, address).items() if name is not None}
    if not named:
        raise Failure("whose quota? give --user, --client-id, both, or --address")
    if "ip" in named and len(named) > 1:
        raise Failure("--address goes with neither --user nor --client-id")
    return {kind: None if name == DEFAULT_NAME else name for kind, name in named.items()}


def _text(entity: Mapping[str, str | None]) -> str:
    return " and ".join(f"{kind} {name or DEFAULT_NAME}" for kind, name in entity.items())
