"""What can go wrong between a client and a broker. The text has no address: the caller knows which broker it is."""

from __future__ import annotations

from sordini.protocol.api import Api


def reason_of_loss(error: OSError) -> str:
    """The system's text, as the end of a sentence."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


class ClientError(Exception):
    """A request was not sent, or its response did not arrive."""


class ConnectionLost(ClientError):
    """The connection ended: whether the requests in flight were carried out is not known. The text is the reason."""


class InvalidResponse(ClientError):
    """The peer's bytes are not the response that is due; the connection is unusable. The text reads after "it sent"."""


class InvalidLength(InvalidResponse):
    """The length in front of a response is negative, too small, or beyond the limit."""

    def __init__(self, size: int, limit: int, first_bytes: bytes) -> None:
        self.first_bytes = first_bytes
        """The four bytes that were read as the length: they often show that the peer speaks another protocol."""
        super().__init__(f"a response of {size} bytes, the limit is {limit}")


class UnsupportedVersion(ClientError):
    """The broker and this client have no version of a request in common, within the caller's bounds."""

    def __init__(self, api: Api, oldest: int, newest: int) -> None:
        """The broker serves versions `oldest` to `newest`; -1 as `newest`: none."""
        self.api_name = api.key.name.replace("_", " ").title().replace(" ", "")
        """As Apache Kafka's documentation writes it, e.g. `ListOffsets`."""
        self.oldest = oldest
        self.newest = newest
        served = f"versions {oldest} to {newest} of" if newest >= 0 else "no"
        super().__init__(f"the broker serves {served} {self.api_name} requests")


class AuthenticationFailed(ClientError):
    """The broker refuses the credentials or the SASL mechanism, or does not prove to know the password."""
