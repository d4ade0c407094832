"""Versions and authentication: exchanges as steps, carried out here by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sordini.client.authentication import SaslCredentials, authenticate
from sordini.client.errors import NotServed, Unauthorized
from sordini.client.versions import ServedVersions, Steps, T, negotiate
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from sordini.protocol.served_apis import APIS
from tests.unit.client.test_scram import FINAL, FIRST, NONCE, VERIFIED

METADATA = APIS[ApiKey.METADATA]
EVERYTHING = ServedVersions({key: (api.min_version, api.max_version) for key, api in APIS.items()})


def carried_out(steps: Steps[T], answer: Callable[[Any, int], Any]) -> tuple[T, list[tuple[str, int]]]:
    """The result, and the kinds and versions of the requests that were sent."""
    sent = []
    try:
        step = next(steps)
        while True:
            request, version = step
            sent.append((type(request).__name__, version))
            step = steps.send(answer(request, version))
    except StopIteration as end:
        return end.value, sent


def test_a_broker_too_old_for_the_question_is_asked_in_version_0() -> None:
    def answer(_request: Any, version: int) -> ApiVersionsResponse:
        if version:
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=4)])

    served, sent = carried_out(negotiate(), answer)
    assert served.highest(METADATA) == 4
    assert sent == [("ApiVersionsRequest", 3), ("ApiVersionsRequest", 0)]


@pytest.mark.parametrize(
    ("served", "bounds", "expected"),
    [
        ((0, 5), {}, 5),
        ((0, 99), {}, METADATA.max_version),
        ((0, 99), {"at_most": 4}, 4),
        ((0, 99), {"at_least": 4, "at_most": 4}, 4),
        ((0, 3), {"at_least": 4}, None),
        ((99, 100), {}, None),
        ((5, 9), {"at_most": 4}, None),
    ],
)
def test_the_version_of_a_request_is_the_newest_within_all_bounds(
    served: tuple[int, int], bounds: dict[str, int], expected: int | None
) -> None:
    versions = ServedVersions({ApiKey.METADATA: served})
    if expected is not None:
        assert versions.highest(METADATA, **bounds) == expected
        return
    with pytest.raises(NotServed, match=f"versions {served[0]} to {served[1]} of Metadata requests"):
        versions.highest(METADATA, **bounds)


def test_a_request_that_is_not_served_has_no_version() -> None:
    with pytest.raises(NotServed, match="the broker does not serve Metadata requests"):
        ServedVersions({}).highest(METADATA)


class Broker:
    """The server's side of SASL, with tokens by rote."""

    def __init__(self, tokens: dict[bytes, bytes], *, handshake: int = 0, code: int = 0, lifetime_ms: int = 0) -> None:
        self._tokens = tokens
        self._handshake = handshake
        self._code = code
        self._lifetime_ms = lifetime_ms

    def answer(self, request: Any, _version: int) -> Any:
        if not isinstance(request, SaslAuthenticateRequest):
            return SaslHandshakeResponse(error_code=self._handshake, mechanisms=["GSSAPI", "OAUTHBEARER"])
        token = self._tokens[bytes(request.auth_bytes)]
        reason = "no such user" if self._code else None
        return SaslAuthenticateResponse(
            auth_bytes=token, error_code=self._code, error_message=reason, session_lifetime_ms=self._lifetime_ms
        )


def test_plain_sends_name_and_password_in_one_token() -> None:
    steps = authenticate(SaslCredentials("PLAIN", "ann", "secret"), EVERYTHING, "h:1", NONCE)
    lifetime_ms, sent = carried_out(steps, Broker({b"\0ann\0secret": b""}, lifetime_ms=5_000).answer)
    assert lifetime_ms == 5_000
    assert [name for name, _ in sent] == ["SaslHandshakeRequest", "SaslAuthenticateRequest"]


def test_scram_proves_the_password_and_checks_the_server_s_proof() -> None:
    steps = authenticate(SaslCredentials("SCRAM-SHA-256", "user", "pencil"), EVERYTHING, "h:1", NONCE)
    tokens = {b"n,,n=user,r=" + NONCE.encode(): FIRST, FINAL: VERIFIED}
    assert carried_out(steps, Broker(tokens).answer)[0] == 0
    steps = authenticate(SaslCredentials("SCRAM-SHA-256", "user", "pencil"), EVERYTHING, "h:1", NONCE)
    with pytest.raises(Unauthorized, match="authenticating at h:1 as 'user'"):
        carried_out(steps, Broker(tokens | {FINAL: b"v=AAAA"}).answer)


BEARER = SaslCredentials("OAUTHBEARER", "", "a.b.c")
BEARER_FIRST = b"n,,\x01auth=Bearer a.b.c\x01\x01"


def test_a_token_is_sent_in_one_message_and_the_session_is_as_long_as_the_broker_says() -> None:
    steps = authenticate(BEARER, EVERYTHING, "h:1", NONCE)
    assert carried_out(steps, Broker({BEARER_FIRST: b""}, lifetime_ms=5_000).answer)[0] == 5_000


@pytest.mark.parametrize("fails_at_once", [True, False])
def test_a_refused_token_is_answered_before_the_refusal_is_reported(fails_at_once: bool) -> None:
    """Also by a broker that has nothing more to say."""
    broker = Broker({BEARER_FIRST: b'{"status":"invalid_token"}', b"\x01": b""})
    answered: list[bytes] = []

    def answer(request: Any, version: int) -> Any:
        if isinstance(request, SaslAuthenticateRequest):
            answered.append(bytes(request.auth_bytes))
            if fails_at_once and request.auth_bytes == b"\x01":
                return SaslAuthenticateResponse(
                    auth_bytes=b"",
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                    error_message='{"status":"invalid_token"}',
                    session_lifetime_ms=0,
                )
        return broker.answer(request, version)

    with pytest.raises(Unauthorized, match=r"h:1 refuses the token \(OAUTHBEARER\)") as refused:
        carried_out(authenticate(BEARER, EVERYTHING, "h:1", NONCE), answer)
    assert answered == [BEARER_FIRST, b"\x01"]
    assert "a.b.c" not in str(refused.value)
    assert ("invalid_token" in str(refused.value)) is fails_at_once


@pytest.mark.parametrize(
    ("broker", "text"),
    [
        (
            Broker({}, handshake=ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            "h:1 does not accept PLAIN; its SASL mechanisms: GSSAPI, OAUTHBEARER",
        ),
        (Broker({}, handshake=ErrorCode.ILLEGAL_SASL_STATE), "h:1 requires no authentication"),
        (Broker({}, handshake=ErrorCode.UNKNOWN_SERVER_ERROR), "h:1 refuses the SASL handshake"),
        (
            Broker({b"\0a\0b": b""}, code=ErrorCode.SASL_AUTHENTICATION_FAILED),
            r"h:1 refuses 'a' \(PLAIN\): no such user",
        ),
    ],
)
def test_a_refusal_is_reported_in_the_broker_s_words(broker: Broker, text: str) -> None:
    steps = authenticate(SaslCredentials("PLAIN", "a", "b"), EVERYTHING, "h:1", NONCE)
    with pytest.raises(Unauthorized, match=text):
        carried_out(steps, broker.answer)


def test_a_broker_without_sasl_authenticate_is_too_old() -> None:
    steps = authenticate(
        SaslCredentials("PLAIN", "a", "b"), ServedVersions({ApiKey.SASL_HANDSHAKE: (0, 0)}), "h", NONCE
    )
    with pytest.raises(NotServed, match="SaslHandshake"):
        next(steps)


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(SaslCredentials("PLAIN", "ann", "secret"))
