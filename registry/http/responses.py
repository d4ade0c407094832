"""Answers as bytes: JSON in the media type that the client accepts, errors with a code and a text. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from sordini.registry.state.refusals import Refusal
from sordini.system.named_tuple import NamedTuple

REGISTRY_JSON: Final = "application/vnd.schemaregistry.v1+json"
PLAIN_JSON: Final = "application/json"
ACCEPTED: Final = frozenset(
    {"", REGISTRY_JSON, "application/vnd.schemaregistry+json", PLAIN_JSON, "application/octet-stream"}
)
"""Of the bodies of requests."""
LOGIN: Final = 'Basic realm="sordini registry"'


class Text(NamedTuple):
    """An answer that is no JSON value of ours, but a text as it is."""

    text: str
    kind: str | None = None


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    body: bytes
    kind: str
    """The media type."""
    headers: tuple[tuple[str, str], ...] = ()


def kind_of(accept: str) -> str:
    """The media type for a client: that of registries, but for one that names plain JSON alone."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    return PLAIN_JSON if PLAIN_JSON in kinds and not kinds & (ACCEPTED - {"", PLAIN_JSON}) else REGISTRY_JSON


def granted(value: Any, kind: str) -> Answer:
    """The answer of a handler."""
    if isinstance(value, Text):
        return Answer(200, value.text.encode(errors="replace"), value.kind or kind)
    if value is None:
        return Answer(204, b"", kind)
    return Answer(200, _json(value), kind)


def refused(refusal: Refusal, kind: str) -> Answer:
    """An error."""
    headers = (("www-authenticate", LOGIN),) if refusal.status == 401 else ()
    return Answer(refusal.status, _json({"error_code": refusal.code, "message": refusal.text}), kind, headers)


def _json(value: Any) -> bytes:
    # Escaped: a text of a client may have half a surrogate pair, which UTF-8 has not.
    return json.dumps(value, separators=(",", ":")).encode()
