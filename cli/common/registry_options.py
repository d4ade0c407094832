"""Options that say where a schema registry is, and what to log in to it with."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sordini.admin.failure import Failure
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.admin.schema_registry.access import RegistryAccess
    from sordini.client.tls.contexts import Context

T = TypeVar("T")


class RegistryOptions(NamedTuple):
    """What the options gave; the files are not read yet."""

    url: str | None
    user: str | None
    password_file: str | None
    token_file: str | None
    ca: str | None

    def access(self) -> RegistryAccess | None:
        """How the registry is reached; None without --registry. Raises UsageError, and Failure for a file."""
        if self.url is None:
            if any(option is not None for option in self[1:]):
                raise click.UsageError("options of a registry need --registry URL")
            return None
        if (self.user is None) != (self.password_file is None):
            raise click.UsageError("--registry-user and --registry-password-file: give both or none")
        if self.user is not None and self.token_file is not None:
            raise click.UsageError("--registry-user and --registry-token-file: give one of them")
        from sordini.admin.schema_registry.access import RegistryAccess, registry_address

        try:
            address = registry_address(self.url)
        except ValueError as error:
            raise click.UsageError(f"--registry: {error}") from None
        if self.ca is not None and not address.has_tls:
            raise click.UsageError("--registry-ca needs a URL of https")
        return RegistryAccess(address, _context(self.ca) if address.has_tls else None, self._authorization())

    def _authorization(self) -> str | None:
        from sordini.admin.schema_registry.access import basic, bearer

        path = self.password_file or self.token_file
        if path is None:
            return None
        from sordini.cli.common.input_files import read_text

        secret = read_text(path).split("\n", 1)[0].removesuffix("\r")
        if not secret:
            raise Failure(f"{path}: its first line is empty")
        try:
            return bearer(secret) if self.user is None else basic(self.user, secret)
        except ValueError as error:
            raise Failure(f"{path}: {error}" if self.user is None else f"--registry-user: {error}") from None


def registry_options(meaning: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a registry, which it gets as one `registry`; `meaning` is that of --registry."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @click.option("--registry", "registry_url", metavar="URL", help=meaning)
        @click.option("--registry-user", metavar="NAME", help="Log in to the registry with this name, and a password.")
        @click.option("--registry-password-file", metavar="FILE", help="A file whose first line is the password.")
        @click.option(
            "--registry-token-file", metavar="FILE", help="Log in with a bearer token, the first line of this file."
        )
        @click.option(
            "--registry-ca",
            metavar="FILE",
            help="Authorities (PEM) of the registry's certificate; by default those of this machine.",
        )
        @wraps(command)
        def with_registry(
            *args: Any,
            registry_url: str | None,
            registry_user: str | None,
            registry_password_file: str | None,
            registry_token_file: str | None,
            registry_ca: str | None,
            **others: Any,
        ) -> None:
            given = RegistryOptions(
                registry_url, registry_user, registry_password_file, registry_token_file, registry_ca
            )
            command(*args, registry=given, **others)

        return with_registry

    return decorated


def _context(ca: str | None) -> Context:
    from sordini.cli.common.input_files import read_text
    from sordini.client.tls.contexts import VERSIONS, TlsMaterial, client_context
    from sordini.client.tls.stores import StoreError, pem_trust_store

    try:
        trust = None if ca is None else pem_trust_store(read_text(ca))
        return client_context(TlsMaterial(tuple(VERSIONS), (), None, trust), checks_host=True)
    except StoreError as error:
        raise Failure(f"{ca}: {error}") from None
