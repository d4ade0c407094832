"""The keys of authorization."""

from __future__ import annotations

import dataclasses
from typing import Final

from sordini.broker.configuration.settings import ConfigError, ValueKind, ValueRule, boolean, setting

AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""Names of Apache Kafka's classes. All mean the same here: the entries in the coordination store decide."""


def _parse_authorizer(text: str) -> str:
    if text and text not in AUTHORIZERS:
        raise ValueError(text)
    return text


def parse_super_users(text: str) -> frozenset[str]:
    """Principals, `User:admin;User:CN=broker,O=x`. Raises ValueError when one is not of the form TYPE:NAME."""
    users = [part.strip() for part in text.split(";") if part.strip()]
    for user in users:
        kind, _, name = user.partition(":")
        if not kind or not name:
            raise ValueError(user)
    return frozenset(users)


def _parse_users(text: str) -> str:
    parse_super_users(text)
    return text


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class AuthorizationSettings:
    """Who may do what, and who may do everything."""

    authorizer_class_name: str = setting(
        "authorizer.class.name",
        ValueRule(ValueKind.STRING, "empty, or one of " + ", ".join(AUTHORIZERS), _parse_authorizer),
        "",
        "Decides by the access control entries of the cluster; empty: every client may do everything.",
    )
    super_users: str = setting(
        "super.users",
        ValueRule(ValueKind.STRING, "principals such as User:admin, separated by semicolons", _parse_users),
        "",
        "Principals that may do everything, separated by semicolons.",
    )
    allow_everyone_if_no_acl_found: bool | None = setting(
        "allow.everyone.if.no.acl.found",
        boolean,
        None,
        "Whether every client may use resources that no access control entry is about; unset is false.",
    )

    @property
    def super_user_principals(self) -> frozenset[str]:
        return parse_super_users(self.super_users)


def check_authorization(config: AuthorizationSettings) -> None:
    """Raise ConfigError for keys that ask for authorization where none is configured."""
    if config.authorizer_class_name:
        return
    given = {
        "super.users": config.super_users,
        "allow.everyone.if.no.acl.found": "false" if config.allow_everyone_if_no_acl_found is False else "",
    }
    for key, text in given.items():
        if text:
            raise ConfigError(
                f"{key}={text!r} asks for authorization: every client may do everything here; allowed is that only "
                f"with authorizer.class.name={AUTHORIZERS[0]}"
            )
