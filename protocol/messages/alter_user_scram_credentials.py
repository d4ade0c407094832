"""AlterUserScramCredentials: set and remove users' credentials for SCRAM (KIP-554).

A password travels salted and hashed: a broker never sees it.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bytes, Int8, Int16, Int32, NullableString, String


@message(versions=range(1), flexible=0)
class AlterUserScramCredentialsRequest:
    """The changes."""

    deletions: Array[ScramCredentialDeletion] = EMPTY
    upsertions: Array[ScramCredentialUpsertion] = EMPTY


@struct
class ScramCredentialDeletion:
    """A credential to remove."""

    name: String = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion:
    """A credential to set."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@message(versions=range(1), flexible=0)
class AlterUserScramCredentialsResponse:
    """One result for each user."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult] = EMPTY


@struct
class AlterUserScramCredentialsResult:
    """Whether a user's changes were made."""

    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""
