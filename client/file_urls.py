"""File URLs in settings: `file:///path`, of this machine. Pure."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit


def check_file(key: str, url: str) -> None:
    """Raise ValueError for a file URL without an absolute path on this machine."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path or parts.query:
        raise ValueError(f"{key}={url!r} is not valid: allowed is file:///path with an absolute path")


def file_of(url: str) -> str:
    """The path of a file URL that was checked."""
    return unquote(urlsplit(url).path)
