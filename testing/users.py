"""Users of a cluster that a test makes, by the kit's own client."""

from __future__ import annotations

import hashlib
from typing import Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from sordini.testing.own_client import KitError, OwnClient
from sordini.testing.security import Login

MECHANISM_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""As AlterUserScramCredentials has them."""
ITERATIONS: Final = 4096


def set_scram_user(client: OwnClient, login: Login, mechanism: str) -> None:
    """Make a user that logs in by SCRAM. Raises KitError."""
    salt = b"sordini-testing"
    name = "sha256" if mechanism.endswith("256") else "sha512"
    salted = hashlib.pbkdf2_hmac(name, login.password.encode(), salt, ITERATIONS)
    upsertion = ScramCredentialUpsertion(
        name=login.user,
        mechanism=MECHANISM_NUMBERS[mechanism],
        iterations=ITERATIONS,
        salt=salt,
        salted_password=salted,
    )
    row = client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion])).results[0]
    if row.error_code:
        raise KitError(f"user {login.user!r}: {row.error_message or ErrorCode(row.error_code).name}")
