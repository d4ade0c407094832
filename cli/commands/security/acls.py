"""`sordini acls`: list, add and remove access control entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import Client, ClientGroup, client_options, is_confirmed, report_each, report_rows
from sordini.cli.common.terminal import echo

if TYPE_CHECKING:
    from sordini.cli.commands.security.acl_selection import Resources
    from sordini.replication.metadata_store.acl_model import AclOperation


@click.group(cls=ClientGroup)
def acls() -> None:
    """List, add and remove access control entries.

    An entry allows or denies a principal an operation on resources: topics, groups, transactional ids, the cluster. A
    denial precedes every permission. They count on brokers with authorizer.class.name.

    \b
      sordini acls list
      sordini acls add --topic orders --group billing --consumer --allow User:alice
      sordini acls remove --topic orders --principal User:alice
    """


def _operation(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[AclOperation, ...]:
    from sordini.admin.security.acl_requests import operation_of

    found = [operation_of(text) for text in texts]
    for text, operation in zip(texts, found, strict=True):
        if operation is None:
            raise click.BadParameter(f"there is no operation {text!r}", ctx, parameter)
    return tuple(operation for operation in found if operation is not None)


_OPERATION = click.option(
    "--operation",
    "operations",
    metavar="OPERATION",
    multiple=True,
    callback=_operation,
    help="Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, "
    "IdempotentWrite or All. Can be repeated.",
)


def _resources(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name resources; it gets them as one `resources`."""

    @click.option("--topic", "-t", "topics", metavar="TOPIC", multiple=True, help="A topic; * is every topic.")
    @click.option("--group", "-g", "groups", metavar="GROUP", multiple=True, help="A consumer group; * is every group.")
    @click.option(
        "--transactional-id",
        "transactional_ids",
        metavar="ID",
        multiple=True,
        help="A transactional id; * is every id.",
    )
    @click.option("--cluster", is_flag=True, help="The cluster.")
    @wraps(command)
    def with_resources(
        *args: Any,
        topics: tuple[str, ...],
        groups: tuple[str, ...],
        transactional_ids: tuple[str, ...],
        cluster: bool,
        **others: Any,
    ) -> None:
        from sordini.cli.commands.security.acl_selection import Resources

        command(*args, resources=Resources(topics, groups, transactional_ids, cluster), **others)

    return with_resources


def _pattern(choices: list[str], default: str) -> Callable[..., Any]:
    return click.option(
        "--pattern",
        type=click.Choice(choices),
        default=default,
        show_default=True,
        help="How names are meant: literal, or prefixed for all that begin so"
        + ("; match for every entry that applies to the name." if "match" in choices else "."),
    )


@acls.command("list")
@_resources
@_pattern(["literal", "prefixed", "match", "any"], "any")
@click.option("--principal", "principals", metavar="PRINCIPAL", multiple=True, help="Only of this principal.")
@client_options
def list_(client: Client, *, resources: Resources, pattern: str, principals: tuple[str, ...]) -> None:
    """List entries: all of them, or those of some resources and principals.

    \b
      sordini acls list
      sordini acls list --topic orders-eu --pattern match
      sordini acls list --principal User:alice
    """
    from sordini.admin.security.acl_requests import list_acls
    from sordini.cli.commands.security.acl_selection import PATTERN_TYPES, BadSelection, filters_of

    try:
        filters = filters_of(resources, PATTERN_TYPES[pattern], principals, ())
    except BadSelection as error:
        raise click.UsageError(str(error)) from None
    rows = client.run(lambda cluster: list_acls(cluster, filters))
    head = [key.upper() for row in rows[:1] for key in row]
    report_rows(client, rows, head, lambda row: list(row.values()), "There are no such entries.")


@acls.command()
@_resources
@_pattern(["literal", "prefixed"], "literal")
@click.option("--allow", "allowed", metavar="PRINCIPAL", multiple=True, help="Who may: User:NAME, or User:*.")
@click.option("--deny", "denied", metavar="PRINCIPAL", multiple=True, help="Who may not, whatever else allows it.")
@click.option("--host", "hosts", metavar="ADDRESS", multiple=True, help="From where; without it from everywhere.")
@_OPERATION
@click.option("--producer", is_flag=True, help="What a producer needs: Write, Describe and Create of its topics.")
@click.option("--consumer", is_flag=True, help="What a consumer needs: Read of its topics and its group.")
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite, which old brokers require.")
@client_options
def add(client: Client, *, resources: Resources, pattern: str, **grant: Any) -> None:
    """Add entries. An entry that is there already stays; without --operation it is All.

    \b
      sordini acls add --topic orders --group billing --consumer --allow User:alice
      sordini acls add --topic orders- --pattern prefixed --producer --allow User:bob
      sordini acls add --cluster --operation Describe --allow User:carol --host 192.0.2.7
    """
    from sordini.admin.security.acl_requests import add_acls
    from sordini.cli.commands.security.acl_selection import PATTERN_TYPES, BadSelection, Grant, bindings_of

    try:
        bindings = bindings_of(resources, PATTERN_TYPES[pattern], Grant(**grant))
    except BadSelection as error:
        raise click.UsageError(str(error)) from None
    rows = client.run(lambda cluster: add_acls(cluster, bindings))
    report_each(client, rows, lambda row: f"added: {_words(row)}")


@acls.command()
@_resources
@_pattern(["literal", "prefixed", "match", "any"], "literal")
@click.option("--principal", "principals", metavar="PRINCIPAL", multiple=True, help="Only of this principal.")
@_OPERATION
@click.option("--all", "everything", is_flag=True, help="Every entry of the cluster.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def remove(client: Client, *, resources: Resources, pattern: str, everything: bool, yes: bool, **which: Any) -> None:
    """Remove the entries of some resources and principals. It asks for confirmation.

    \b
      sordini acls remove --topic orders --principal User:alice
      sordini acls remove --topic orders- --pattern prefixed --operation Write
    """
    from sordini.admin.security.acl_requests import list_acls, remove_acls
    from sordini.cli.commands.security.acl_selection import PATTERN_TYPES, BadSelection, filters_of

    principals, operations = which["principals"], which["operations"]
    if everything == bool(resources.names() or principals or operations):
        raise click.UsageError("name resources, principals or operations; or --all, which removes every entry")
    has_names = bool(resources.names())
    try:
        filters = filters_of(resources, PATTERN_TYPES[pattern if has_names else "any"], principals, operations)
    except BadSelection as error:
        raise click.UsageError(str(error)) from None
    if not yes:
        found = client.run(lambda cluster: list_acls(cluster, filters))
        if found and not is_confirmed(f"Remove {len(found)} entries?", yes=yes):
            raise Failure("nothing was removed")
    rows = client.run(lambda cluster: remove_acls(cluster, filters))
    report_each(client, rows, lambda row: f"removed: {_words(row)}")
    if not rows and not client.as_json:
        echo("There are no such entries.", err=True)


def _words(row: Any) -> str:
    pattern = "" if row["pattern"] == "literal" else f" ({row['pattern']})"
    may = "may" if row["permission"] == "allow" else "may not"
    return f"{row['principal']} {may} {row['operation']} {row['type']} {row['name']}{pattern} from host {row['host']}"
