"""How jobs reach a schema registry. Values, as they are sent to Spark's workers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sordini.pipeline.errors import BadSetting

if TYPE_CHECKING:
    from sordini.admin.schema_registry.access import RegistryAccess

WAIT_SECONDS: Final = 60.0


@dataclass(frozen=True)
class RegistrySettings:
    """An address, and a login by name and password, or by a token."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca: str = ""
    """Authorities (PEM) of the registry's certificate; by default those of the machine."""
    subject: str = ""
    """Whose latest version has the columns, for jobs without a schema."""
    read_subjects: tuple[str, ...] = ()
    """Those of the job's topics. A registry hides ids of subjects that the login may not read: it has to be able to."""
    wait_seconds: float = WAIT_SECONDS
    """How long a batch waits for a registry that does not answer."""

    @property
    def cache_name(self) -> str:
        """A name for what is kept of this registry: ids of another one are others."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]

    def access(self) -> RegistryAccess:
        """What a request needs. Raises BadSetting."""
        from sordini.admin.schema_registry.access import RegistryAccess, basic, bearer, registry_address
        from sordini.client.tls.contexts import VERSIONS, TlsMaterial, client_context
        from sordini.client.tls.stores import StoreError, pem_trust_store

        if self.user and self.token:
            raise BadSetting("user: a registry takes a name and a password, or a token, not both")
        if bool(self.user) != bool(self.password):
            raise BadSetting("user: a name and a password go together")
        try:
            address = registry_address(self.url)
        except ValueError as error:
            raise BadSetting(f"url: {error}") from None
        if self.ca and not address.has_tls:
            raise BadSetting("ca: a registry without https has no certificate")
        tls = None
        try:
            login = basic(self.user, self.password) if self.user else bearer(self.token) if self.token else None
            if address.has_tls:
                trust = pem_trust_store(_text_of(self.ca)) if self.ca else None
                tls = client_context(TlsMaterial(tuple(VERSIONS), (), None, trust), checks_host=True)
        except ValueError as error:
            raise BadSetting(f"user: {error}") from None
        except (OSError, StoreError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise BadSetting(f"ca: {self.ca}: {reason}") from None
        return RegistryAccess(address, tls, login)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a path or nothing.
        return file.read()
