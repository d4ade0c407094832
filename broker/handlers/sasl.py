"""SASL on listeners that do not ask for it: refused in the words of the protocol, so that clients can say why."""

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
    """Every listener served here is PLAINTEXT: there is nothing to authenticate against."""

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.SASL_HANDSHAKE, self.handshake, self.refuse_handshake),
            Route(ApiKey.SASL_AUTHENTICATE, self.authenticate, self.refuse_authenticate),
        ]

    def handshake(self, call: Call) -> SaslHandshakeResponse:
        return self.refuse_handshake(call.body, ErrorCode.ILLEGAL_SASL_STATE)

    def authenticate(self, call: Call) -> SaslAuthenticateResponse:
        return self.refuse_authenticate(call.body, ErrorCode.ILLEGAL_SASL_STATE)

    @staticmethod
    def refuse_handshake(request: SaslHandshakeRequest, code: ErrorCode) -> SaslHandshakeResponse:
        del request
        return SaslHandshakeResponse(error_code=code)

    @staticmethod
    def refuse_authenticate(request: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
        del request
        return SaslAuthenticateResponse(error_code=code, error_message="this listener does not authenticate")
