"""How a registry is reached: its address, what certificates are trusted, and the login."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.client.tls.contexts import Context

PORTS: Final = {"http": 80, "https": 443}


class RegistryAddress(NamedTuple):
    """The parts of `--registry URL`."""

    host: str
    port: int
    has_tls: bool
    path: str
    """Before the path of each request; empty, or without a slash at its end. `/contexts/.test` is a context."""

    def __str__(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{shown}:{self.port}{self.path}"


class RegistryAccess(NamedTuple):
    """Whatever a request needs."""

    address: RegistryAddress
    tls: Context | None = None
    """What verifies the certificate; None for `http`."""
    authorization: str | None = None
    """The header, which is secret."""

    def __repr__(self) -> str:
        return f"RegistryAccess({self.address})"


def registry_address(url: str) -> RegistryAddress:
    """The parts of a URL. Raises ValueError, which shows no password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("not the URL of a registry: allowed is http://HOST:PORT or https://HOST:PORT") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("a login in the URL is seen by other users of the machine: there are options for it")
    if parts.scheme not in PORTS or not host or parts.query or parts.fragment or not _is_plain(url):
        raise ValueError(f"{url!r} is not the URL of a registry: allowed is http://HOST:PORT or https://HOST:PORT")
    return RegistryAddress(host, port or PORTS[parts.scheme], parts.scheme == "https", parts.path.rstrip("/"))


def basic(user: str, password: str) -> str:
    """The header of a login by name and password. Raises ValueError."""
    if ":" in user:
        raise ValueError("a user's name has no colon")
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(token: str) -> str:
    """The header of a login by a token. Raises ValueError."""
    if not token or not _is_plain(token):
        raise ValueError("a token is printable ASCII without spaces")
    return f"Bearer {token}"


def _is_plain(text: str) -> bool:
    """Whether a text may be a part of a request's line or header."""
    return text.isascii() and text.isprintable() and " " not in text
