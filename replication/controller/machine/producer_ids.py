"""Blocks of producer ids that the controller allocates to brokers (AllocateProducerIds, KIP-730).

Pure. The next block is written under the version of the node that held the last one. So no id is in two blocks, even
though brokers of protocols before 3.0 allocate theirs in the store themselves.
"""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.controller.machine.events import (
    Done,
    NewProducerIdBlock,
    Outcome,
    ProducerIdsRequested,
    StoreWrite,
)
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import PRODUCER_ID_MAX, PRODUCER_IDS_PER_BLOCK, ProducerIdBlock
from sordini.replication.ports import Set


def next_producer_id_block(last: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock | None:
    """The block that follows the last one; None when the cluster has run out of ids."""
    start = 0 if last is None else last.end
    if start > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        return None
    return ProducerIdBlock(broker_id, start, start + PRODUCER_IDS_PER_BLOCK)


def allocate(transition: ControllerTransition, event: ProducerIdsRequested) -> None:
    """Write the next block for a broker that is registered in this incarnation."""
    broker = transition.brokers.get(event.broker_id)
    block = next_producer_id_block(event.last, event.broker_id)
    if broker is None:
        transition.reply(None, ErrorCode.BROKER_ID_NOT_REGISTERED)
    elif broker.epoch != event.broker_epoch:
        transition.reply(None, ErrorCode.STALE_BROKER_EPOCH)
    elif block is None:
        transition.reply(None, ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        operation = Set(paths.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), event.version)
        transition.write(StoreWrite(operation, NewProducerIdBlock(block)))


def wrote(transition: ControllerTransition, purpose: NewProducerIdBlock, outcome: Outcome) -> None:
    """Reply with the block; after a refused write the last block has to be read again."""
    transition.reply(None, purpose.block if isinstance(outcome, Done) else ErrorCode.INVALID_UPDATE_VERSION)
