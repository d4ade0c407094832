"""Settings that allow a replica to lead that is not in sync, from the node in the store to the leader."""

from __future__ import annotations

import pytest

from sordini.replication.controller.policy import UNCLEAN_KEY
from sordini.replication.metadata_store.configs import change_config
from tests.support.controlled_broker import GovernedBroker, governed, write_partition
from tests.support.unit_broker import ME, a_broker


async def settings(whole: GovernedBroker, entity: str, **values: str) -> None:
    """Write an entity's settings and the change notification."""
    number = await change_config(whole.broker.session, entity, lambda _: {UNCLEAN_KEY: values["unclean"]})
    await whole.broker.parts.config_changes.applied(number)
    await whole.settled()


@pytest.mark.parametrize("entity", ["topics/orders", "brokers/<default>", f"brokers/{ME}"])
async def test_a_partition_without_a_leader_is_led_as_soon_as_that_is_allowed(entity: str) -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (2, ME), None, (2,))
        async with governed(broker) as whole:
            await settings(whole, entity, unclean="false")
            assert broker.parts.metadata.topics["orders"].partitions[0].leader != ME
            await settings(whole, entity, unclean="true")
            state = await whole.state("orders")
            assert (state.leader, state.isr, state.leader_epoch, state.recovering) == (ME, (ME,), 6, True)
            assert broker.parts.metadata.topics["orders"].partitions[0].leader == ME


async def test_a_topic_that_forbids_it_is_not_led_because_the_others_allow_it() -> None:
    async with a_broker({UNCLEAN_KEY: "true"}) as broker:
        await write_partition(broker, "orders", (2, ME), None, (2,))
        await write_partition(broker, "bills", (2, ME), None, (2,))
        await change_config(broker.session, "topics/orders", lambda _: {UNCLEAN_KEY: "false"})
        async with governed(broker) as whole:
            assert (await whole.state("orders")).leader is None
            assert (await whole.state("bills")).leader == ME
            await settings(whole, "brokers/<default>", unclean="true")
            assert (await whole.state("orders")).leader is None
