"""SaslHandshake and SaslAuthenticate: who the peer is (KIP-43, KIP-152, KIP-368).

On a listener without SASL both are refused with an error code, so that clients can report the reason.
"""

from __future__ import annotations

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import OPEN, Call, Route
from sordini.broker.security.sasl.exchanges import LoginRefused
from sordini.broker.security.sasl.login import Login
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

NOT_HERE = "this listener does not authenticate"


class SaslHandler:
    """Serves the login of a connection (`Peer.login`)."""

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.SASL_HANDSHAKE, self.handshake, self.handshake_error_response, OPEN),
            Route(ApiKey.SASL_AUTHENTICATE, self.authenticate, self.authenticate_error_response, OPEN),
        ]

    def handshake(self, call: Call) -> SaslHandshakeResponse:
        login = call.peer.login
        if not isinstance(login, Login):
            return self.handshake_error_response(call.body, ErrorCode.ILLEGAL_SASL_STATE)
        try:
            login.begin(call.body.mechanism, call.version)
        except BrokerError as error:
            return SaslHandshakeResponse(error_code=error.code, mechanisms=login.mechanisms)
        return SaslHandshakeResponse(mechanisms=login.mechanisms)

    def authenticate(self, call: Call) -> SaslAuthenticateResponse | DelayedResponse:
        login = call.peer.login
        if not isinstance(login, Login):
            return self._refused(ErrorCode.ILLEGAL_SASL_STATE, NOT_HERE)
        request: SaslAuthenticateRequest = call.body
        try:
            challenge, lifetime_ms = login.authenticate(request.auth_bytes)
        except BrokerError as error:
            return self._refused(error.code, str(error))
        except LoginRefused as refused:
            response = self._refused(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refused))
            pending = DelayedResponse()
            pending.blocks_pipeline = True
            login.delay_refusal(lambda: call.complete(pending, response))
            return pending
        return SaslAuthenticateResponse(error_message=None, auth_bytes=challenge, session_lifetime_ms=lifetime_ms)

    @staticmethod
    def _refused(code: ErrorCode, message: str) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(error_code=code, error_message=message)

    @staticmethod
    def handshake_error_response(request: SaslHandshakeRequest, code: ErrorCode) -> SaslHandshakeResponse:
        del request
        return SaslHandshakeResponse(error_code=code)

    @staticmethod
    def authenticate_error_response(request: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
        del request
        return SaslAuthenticateResponse(error_code=code, error_message=NOT_HERE)
