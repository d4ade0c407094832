"""DescribeUserScramCredentials: which users have credentials for SCRAM (KIP-554)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, NullableArray, NullableString, String


@message(versions=range(1), flexible=0)
class DescribeUserScramCredentialsRequest:
    """The requested users."""

    users: NullableArray[UserName] = EMPTY  # None, or none: all.


@struct
class UserName:
    """One user."""

    name: String = ""


@message(versions=range(1), flexible=0)
class DescribeUserScramCredentialsResponse:
    """What is known of each."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    results: Array[DescribeUserScramCredentialsResult] = EMPTY


@struct
class DescribeUserScramCredentialsResult:
    """One user's credentials, or an error."""

    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""
    credential_infos: Array[CredentialInfo] = EMPTY


@struct
class CredentialInfo:
    """One credential, without its secrets."""

    mechanism: Int8 = 0
    iterations: Int32 = 0
