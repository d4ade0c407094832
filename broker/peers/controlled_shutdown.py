"""Leaving the cluster in order: the controller is asked to move what this broker leads, before the broker stops.

The controller is looked up in the coordination store and not in the metadata cache, which may be behind; so is where
it listens. It is asked a few times, with a pause, and then the broker stops all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from sordini.broker.peers.channel import Dial
from sordini.broker.peers.controller import ServeLocally
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from sordini.protocol.types import BrokerId
from sordini.replication.controller import paths, znodes
from sordini.replication.controller.cluster import Malformed
from sordini.replication.ports import CoordinationError, Log, Session, Unreachable

VERSION: Final = 3
"""In every protocol from 2.7 on."""


class LeavingRules(NamedTuple):
    """How patiently the controller is asked."""

    listener: str
    """The one that brokers use among themselves (`inter.broker.listener.name`)."""
    tries_max: int = 3
    """`controlled.shutdown.max.retries`."""
    pause_ms: int = 5_000
    """`controlled.shutdown.retry.backoff.ms`."""
    answer_timeout_ms: int = 30_000
    """`controller.socket.timeout.ms`."""


class Leaving:
    """Asks the controller for this broker's controlled shutdown."""

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        session: Session,
        dial: Dial,
        serve_locally: ServeLocally,
        rules: LeavingRules,
        log: Log,
    ) -> None:
        """`serve_locally` is asked when this very broker is the controller."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._session = session
        self._dial = dial
        self._serve_locally = serve_locally
        self._rules = rules
        self._log = log

    async def leave(self, timeout_ms: int) -> bool:
        """Ask until all leaderships are moved; False when they were not, within `timeout_ms` or the tries there are."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for left in reversed(range(self._rules.tries_max)):
                    if await self._try():
                        return True
                    if left:
                        await asyncio.sleep(self._rules.pause_ms / 1000)
        except TimeoutError:
            self._log.warning("controlled shutdown took too long", ms=timeout_ms)
        return False

    async def _try(self) -> bool:
        try:
            response = await self._ask()
        except (CoordinationError, Unreachable) as failure:
            self._log.warning("controlled shutdown failed", reason=str(failure))
            return False
        remaining = len(response.remaining_partitions)
        if response.error_code or remaining:
            self._log.warning("controlled shutdown refused", error=response.error_code, remaining=remaining)
            return False
        self._log.info("leaderships moved to other brokers")
        return True

    async def _ask(self) -> ControlledShutdownResponse:
        """Raises CoordinationError, and Unreachable for a node that cannot be read, too."""
        request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        controller = await self._controller()
        response: ControlledShutdownResponse
        if controller == self._broker_id:
            response = await self._serve_locally(request, VERSION)
            return response
        address = await self._address(controller)
        link = self._dial(lambda _: address).link(controller, str(self._broker_id))
        try:
            response = await link.ask(request, VERSION, self._rules.answer_timeout_ms)
        finally:
            link.close()
        return response

    async def _controller(self) -> BrokerId:
        data, _ = await self._session.get(paths.CONTROLLER)
        controller = znodes.decode_controller(data)
        if isinstance(controller, Malformed):
            raise Unreachable(f"{controller.path}: {controller.reason}")
        return controller

    async def _address(self, broker_id: BrokerId) -> tuple[str, int] | None:
        data, stat = await self._session.get(paths.broker(broker_id))
        broker = znodes.decode_broker(broker_id, data, stat.czxid)
        if isinstance(broker, Malformed):
            raise Unreachable(f"{broker.path}: {broker.reason}")
        for endpoint in broker.endpoints:
            if endpoint.listener == self._rules.listener:
                return endpoint.host, endpoint.port
        return None
