"""What the keys of OAUTHBEARER mean together: where a listener's key set is, and whether it may be fetched. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from sordini.broker.configuration.keys.listener_keys import ListenerSecurity
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.settings import ConfigError
from sordini.client.file_urls import check_file

OAUTHBEARER = "OAUTHBEARER"


def check_oauthbearer(security: ListenerSecurity, allowed_urls: str) -> None:
    """Raise ConfigError unless a listener that takes OAUTHBEARER has a key set that the broker may fetch.

    `allowed_urls` is sordini.oauthbearer.allowed.urls.
    """
    url = oauthbearer_settings(security).oauthbearer_jwks_endpoint_url
    if not url:
        raise ConfigError(
            f"the listener {security.name} takes {OAUTHBEARER} and has no keys to verify tokens with; allowed is "
            f"listener.name.{security.name.lower()}.{_URL} with a JSON Web Key Set"
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError(f"{_URL}={url!r} is not valid: allowed is a URL") from None
    if parts.scheme == "file":
        try:
            check_file(_URL, url)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        # Not shown: it may have a password.
        raise ConfigError(f"{_URL} is not valid: allowed is file:///path, or an https or http URL without a user name")
    if url not in allowed_urls.split(","):
        raise ConfigError(
            f"{_URL}={url!r} is not valid: allowed is a URL of sordini.oauthbearer.allowed.urls ({allowed_urls})"
        )


def oauthbearer_settings(security: ListenerSecurity) -> SecuritySettings:
    """The settings of the mechanism on a listener."""
    return security.of_mechanism(OAUTHBEARER)


_URL = "sasl.oauthbearer.jwks.endpoint.url"
