"""The connection to one broker."""

from __future__ import annotations

from typing import Any

from examples.heritage.errors import BrokerUnavailable
from sordini.client.blocking_link import BlockingLink
from sordini.client.errors import ClientError


class BrokerLink(BlockingLink):
    def ask(self, request: Any, **bounds: Any) -> Any:
        """As `BlockingLink.ask`. Raises BrokerUnavailable."""
        try:
            return super().ask(request, **bounds)
        except ClientError as error:
            raise BrokerUnavailable(f"broker at {self.address}: {error}") from None
