"""The options of OAUTHBEARER: where tokens come from, under the names of Apache Kafka's clients and of librdkafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from sordini.client.file_urls import check_file, file_of
from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.client.jaas import jaas_options
from sordini.pipeline.source.client.tokens import TokenEndpoint, TokenSource

_CALLBACK: Final = "sasl.oauthbearer.token.callback"
_ARGUMENT: Final = "sasl.oauthbearer.config"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_EXTENSIONS: Final = "sasl.oauthbearer.extensions"
_IDS: Final = ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
_SECRETS: Final = ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret")
_SCOPE: Final = "sasl.oauthbearer.scope"
_METHOD: Final = "sasl.oauthbearer.method"
"""Of librdkafka: default is a callback, oidc an endpoint. Which one it is follows from the others."""
TOKEN_OPTIONS: Final = (_CALLBACK, _ARGUMENT, _URL, _EXTENSIONS, *_IDS, *_SECRETS, _SCOPE, _METHOD)
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x2b\x2d-\x7e][\x20-\x2b\x2d-\x7e]*)")


def read_token_source(values: Mapping[str, str], argument: str | None, jaas: str) -> TokenSource:
    """Read the values of `TOKEN_OPTIONS` (empty: not given); `argument` is the callback's. Raises BadSetting.

    The line of JAAS may have clientId, clientSecret, scope and extension_NAME, as Apache Kafka's clients take it.
    """
    line = jaas_options(jaas, "OAuthBearerLoginModule") if jaas else {}
    extensions = _extensions(values[_EXTENSIONS])
    extensions += tuple((key.removeprefix("extension_"), line[key]) for key in line if key.startswith("extension_"))
    callback, url = values[_CALLBACK], values[_URL]
    if bool(callback) == bool(url):
        raise BadSetting(f"kafka.sasl.mechanism=OAUTHBEARER needs either kafka.{_CALLBACK} or kafka.{_URL}")
    if callback:
        if not _FUNCTION.fullmatch(callback):
            raise BadSetting(f"kafka.{_CALLBACK} is {callback!r}, which is not `module:function`")
        return TokenSource(callback=callback, argument=argument, extensions=extensions)
    if argument is not None:
        raise BadSetting(f"kafka.{_ARGUMENT} is the argument of kafka.{_CALLBACK}, which is not given")
    if url.startswith("file:"):
        try:
            check_file(f"kafka.{_URL}", url)
        except ValueError as error:
            raise BadSetting(str(error)) from None
        return TokenSource(path=file_of(url), extensions=extensions)
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise BadSetting(f"kafka.{_URL} is {url!r}: it has to begin with https://, http:// or file:")
    client_id, secret = _first(values, _IDS, line.get("clientId")), _first(values, _SECRETS, line.get("clientSecret"))
    if not client_id or not secret:
        raise BadSetting(f"kafka.{_URL} needs kafka.{_IDS[0]} and kafka.{_SECRETS[0]}")
    scope = values[_SCOPE] or line.get("scope", "")
    return TokenSource(endpoint=TokenEndpoint(url, client_id, secret, scope), extensions=extensions)


def _first(values: Mapping[str, str], names: tuple[str, ...], default: str | None) -> str:
    return next((values[name] for name in names if values[name]), default or "")


def _extensions(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        pair = _PAIR.fullmatch(part)
        if pair is None or pair[1] == "auth":
            raise BadSetting(f"kafka.{_EXTENSIONS} has {part!r}, which is no NAME=VALUE")
        found.append((pair[1], pair[2]))
    return tuple(found)
