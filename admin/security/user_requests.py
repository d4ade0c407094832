"""The requests of `sordini users`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, error_text
from sordini.client.errors import Refused, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from sordini.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES: Final = {number: name for name, number in NUMBERS.items()}
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT_BYTES: Final = 24

Row = dict[str, Any]


async def list_users(cluster: ClusterClient, names: Sequence[str] = ()) -> list[Row]:
    """The credentials of some users, or of all: one row for each user and mechanism."""

    async def attempt() -> list[Row]:
        link = await cluster.any_broker()
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
        answer: DescribeUserScramCredentialsResponse = await link.ask(request)
        check("users", answer.error_code, answer.error_message)
        rows = []
        for found in answer.results:
            check(f"user '{found.user}'", found.error_code, found.error_message)
            rows += [
                {"user": found.user, "mechanism": _NAMES.get(info.mechanism), "iterations": info.iterations}
                for info in found.credential_infos
            ]
        return rows

    return await cluster.retry(attempt)


async def set_user(
    cluster: ClusterClient, name: str, password: str, mechanisms: Sequence[str], iterations: int
) -> list[Row]:
    """Set a user's credentials; the password is salted and hashed here."""
    return await _alter(
        cluster,
        name,
        mechanisms,
        AlterUserScramCredentialsRequest(
            upsertions=[_upsertion(name, password, mechanism, iterations) for mechanism in mechanisms]
        ),
    )


def _upsertion(name: str, password: str, mechanism: str, iterations: int) -> ScramCredentialUpsertion:
    salt = os.urandom(SALT_BYTES)
    return ScramCredentialUpsertion(
        name=name,
        mechanism=NUMBERS[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations),
    )


async def remove_user(cluster: ClusterClient, name: str, mechanisms: Sequence[str]) -> list[Row]:
    """Remove a user's credentials, of all its mechanisms if none is named."""
    if not mechanisms:
        mechanisms = [row["mechanism"] for row in await list_users(cluster, [name]) if row["mechanism"] is not None]
    deletions = [ScramCredentialDeletion(name=name, mechanism=NUMBERS[mechanism]) for mechanism in mechanisms]
    return await _alter(cluster, name, mechanisms, AlterUserScramCredentialsRequest(deletions=deletions))


async def _alter(
    cluster: ClusterClient, name: str, mechanisms: Sequence[str], request: AlterUserScramCredentialsRequest
) -> list[Row]:
    async def attempt() -> AlterUserScramCredentialsResponse:
        link = await cluster.controller()
        answer: AlterUserScramCredentialsResponse = await link.ask(request)
        for row in answer.results:
            if row.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                raise Refused(f"user '{name}'", row.error_code, row.error_message)
        return answer

    answer = await cluster.retry(attempt)
    errors = {row.user: error_text(f"user '{row.user}'", row.error_code, row.error_message) for row in answer.results}
    missing = f"the broker's answer says nothing of user '{name}'"
    return [{"user": name, "mechanism": mechanism, "error": errors.get(name, missing)} for mechanism in mechanisms]
