"""SASL on listeners without SASL: refused with an error code, so that clients can report the reason."""

from __future__ import annotations

from sordini.broker.dispatch import Call, Route
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


class SaslHandler:
    """Every listener is PLAINTEXT: authentication is refused."""

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.SASL_HANDSHAKE, self.handshake, self.handshake_error_response),
            Route(ApiKey.SASL_AUTHENTICATE, self.authenticate, self.authenticate_error_response),
        ]

    def handshake(self, call: Call) -> SaslHandshakeResponse:
        return self.handshake_error_response(call.body, ErrorCode.ILLEGAL_SASL_STATE)

    def authenticate(self, call: Call) -> SaslAuthenticateResponse:
        return self.authenticate_error_response(call.body, ErrorCode.ILLEGAL_SASL_STATE)

    @staticmethod
    def handshake_error_response(request: SaslHandshakeRequest, code: ErrorCode) -> SaslHandshakeResponse:
        del request
        return SaslHandshakeResponse(error_code=code)

    @staticmethod
    def authenticate_error_response(request: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
        del request
        return SaslAuthenticateResponse(error_code=code, error_message="this listener does not authenticate")
