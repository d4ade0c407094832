"""`sordini users`: list, set and remove users that log in by SCRAM."""

from __future__ import annotations

import sys

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import Client, ClientGroup, client_options, is_confirmed, report_each, report_rows

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.group(cls=ClientGroup)
def users() -> None:
    """List, set and remove users that log in by SCRAM.

    A user is known to the whole cluster at once; listeners with a SCRAM mechanism take it. A password is salted and
    hashed here: no broker gets it, and the cluster keeps what can check it, not what can log in.

    \b
      sordini users list
      sordini users set alice
      sordini users remove alice
    """


@users.command("list")
@client_options
def list_(client: Client) -> None:
    """List the users, their mechanisms, and how often their passwords are hashed.

    \b
      sordini users list
    """
    from sordini.admin.security.user_requests import list_users

    rows = client.run(list_users)
    report_rows(
        client,
        rows,
        ["USER", "MECHANISM", "ITERATIONS"],
        lambda row: [row["user"], row["mechanism"], row["iterations"]],
        "There are no users. `sordini users set NAME` makes one.",
    )


@users.command("set")
@click.argument("name", metavar="NAME")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_MECHANISMS),
    multiple=True,
    help="Can be repeated; both without it.",
)
@click.option("--password-file", metavar="FILE", help="A file whose first line is the password; - is standard input.")
@click.option(
    "--iterations",
    metavar="N",
    type=click.IntRange(4096, 16384),
    default=8192,
    show_default=True,
    help="How often the password is hashed.",
)
@client_options
def set_(client: Client, name: str, *, mechanisms: tuple[str, ...], password_file: str | None, iterations: int) -> None:
    """Make a user, or give it another password.

    The password comes from a prompt or from a file, never from the command line, which other programs can read.

    \b
      sordini users set alice
      sordini users set alice --mechanism SCRAM-SHA-512 --password-file /run/secrets/alice
    """
    from sordini.admin.security.user_requests import set_user

    password = _password(name, password_file)
    names = mechanisms or _MECHANISMS
    rows = client.run(lambda cluster: set_user(cluster, name, password, names, iterations))
    report_each(client, rows, lambda row: f"{row['user']} logs in by {row['mechanism']}")


@users.command()
@click.argument("name", metavar="NAME")
@click.option("--mechanism", "mechanisms", type=click.Choice(_MECHANISMS), multiple=True, help="Only this mechanism.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def remove(client: Client, name: str, *, mechanisms: tuple[str, ...], yes: bool) -> None:
    """Remove a user: it cannot log in any more. It asks for confirmation.

    \b
      sordini users remove alice
    """
    from sordini.admin.security.user_requests import remove_user

    if not is_confirmed(f"Remove user {name}?", yes=yes):
        raise Failure("nothing was removed")
    rows = client.run(lambda cluster: remove_user(cluster, name, mechanisms))
    report_each(client, rows, lambda row: f"{row['user']} does not log in by {row['mechanism']} any more")


def _password(name: str, path: str | None) -> str:
    """The password. Raises Failure when there is none."""
    if path is None:
        if sys.stdin is None or not sys.stdin.isatty():
            raise Failure("there is no terminal to ask for the password: give --password-file FILE")
        asked: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    from sordini.cli.common.input_files import read_text

    text: str = sys.stdin.readline() if path == "-" and sys.stdin is not None else read_text(path)
    password = text.split("\n", 1)[0].removesuffix("\r")
    if not password:
        raise Failure(f"{path}: there is no password in its first line")
    return password
