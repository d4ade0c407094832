"""Controlled shutdown: the controller moves the leaderships of a broker before the broker stops.

The controller is looked up in the coordination store and not in the metadata cache, which may be behind; so is where
it listens. The request is sent a few times, with a pause, and then the broker stops all the same.

    no other broker is registered            -> stop: there is nothing to hand over to
    nothing remains                          -> stop
    refused, something remains, no answer    -> retry after the pause, which counts as one of the retries
    ... and meanwhile the controller or the set of brokers has changed    -> retry at once, not counted
    ... by a controller that has resigned, or is not yet elected          -> retry soon, not counted

So brokers that are stopped together do not wait for each other: each learns from the store that others have resigned
and left. The pause and the number of retries are for conditions without an event, such as a replica that lags;
`timeout_ms` bounds the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import Enum
from typing import Final

from sordini.broker.cluster.peers.command_channel import Dial
from sordini.broker.cluster.peers.controller_client import ServeLocally
from sordini.protocol.errors import ErrorCode, error_name
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import CoordinationError, Logger, NoNode, Session, Unreachable
from sordini.system.named_tuple import NamedTuple

VERSION: Final = 3
"""In every protocol from 2.7 on."""
SETTLE_S: Final = 0.05
"""After a change in the store: further changes that follow from it are awaited together."""
ELECTION_PAUSE_S: Final = 0.2
"""Before a retry at a controller that is being replaced or not yet elected: there is no event for either."""


class ControlledShutdownLimits(NamedTuple):
    """How often the request is sent, and for how long."""

    listener: str
    """The one that brokers use among themselves (`inter.broker.listener.name`)."""
    tries_max: int = 3
    """`controlled.shutdown.max.retries`."""
    pause_ms: int = 5_000
    """`controlled.shutdown.retry.backoff.ms`."""
    answer_timeout_ms: int = 30_000
    """`controller.socket.timeout.ms`."""


class Outcome(Enum):
    """The outcome of one request."""

    DONE = "done"
    IN_ELECTION = "in election"
    """The broker that the store names is no longer the controller, or not yet."""
    FAILED = "failed"


class ControlledShutdown:
    """Requests this broker's controlled shutdown from the controller."""

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        session: Session,
        dial: Dial,
        serve_locally: ServeLocally,
        rules: ControlledShutdownLimits,
        log: Logger,
    ) -> None:
        """`serve_locally` serves the request when this broker is the controller."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._session = session
        self._dial = dial
        self._serve_locally = serve_locally
        self._rules = rules
        self._log = log
        self._reason = ""
        """Why the last request did not succeed."""

    async def leave(self, timeout_ms: int) -> bool:
        """Retry until nothing remains to hand over; False when something does, after `timeout_ms` or all retries."""
        self._reason = ""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._leave()
        except TimeoutError:
            self._log.warning("controlled shutdown took too long", ms=timeout_ms, reason=self._reason)
        return False

    async def _leave(self) -> bool:
        retries = requests = 0
        while True:
            changed = asyncio.Event()
            if await self._is_alone(changed):
                self._log.info("controlled shutdown complete, no other broker is left", requests=requests)
                return True
            outcome, requests = await self._request_shutdown(), requests + 1
            if outcome is Outcome.DONE:
                self._log.info("controlled shutdown complete", requests=requests)
                return True
            if retries >= self._rules.tries_max - 1:
                self._log.warning("controlled shutdown given up", requests=requests, reason=self._reason)
                return False
            if outcome is Outcome.IN_ELECTION:
                await _change_or_pause(changed, ELECTION_PAUSE_S)
            elif not await _change_or_pause(changed, self._rules.pause_ms / 1000):
                retries += 1

    async def _is_alone(self, changed: asyncio.Event) -> bool:
        """Whether no other broker is registered; `changed` is set when brokers or the controller change afterwards."""

        def fired(_event: object) -> None:
            changed.set()

        try:
            await self._session.exists(paths.CONTROLLER, watch=fired)
            others = set(await self._session.children(paths.BROKER_IDS, watch=fired)) - {str(self._broker_id)}
        except CoordinationError:
            return False  # The request to the controller that follows says why.
        return not others

    async def _request_shutdown(self) -> Outcome:
        try:
            response = await self._request()
        except NoNode as missing:
            if missing.path == paths.CONTROLLER:
                return self._failed("no controller is elected", Outcome.IN_ELECTION)
            return self._failed(str(missing))
        except (CoordinationError, Unreachable) as failure:
            return self._failed(str(failure))
        remaining = len(response.remaining_partitions)
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            return self._failed("the controller has resigned or is not yet elected", Outcome.IN_ELECTION)
        if response.error_code:
            return self._failed(f"the controller refused with error {error_name(response.error_code)}")
        if remaining:
            return self._failed(f"no other replica can lead {remaining} partitions")
        return Outcome.DONE

    def _failed(self, reason: str, outcome: Outcome = Outcome.FAILED) -> Outcome:
        """Logged once for each reason in a row; elections are normal while a cluster is stopped."""
        if reason != self._reason:
            self._reason = reason
            write = self._log.info if outcome is Outcome.IN_ELECTION else self._log.warning
            write("controlled shutdown not done yet", reason=reason)
        return outcome

    async def _request(self) -> ControlledShutdownResponse:
        """Raises CoordinationError, and Unreachable, also for a node that cannot be read."""
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


async def _change_or_pause(changed: asyncio.Event, seconds: float) -> bool:
    """Wait for a change, SETTLE_S longer, or for the time to pass; whether there was a change."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()
            await asyncio.sleep(SETTLE_S)
    return changed.is_set()
