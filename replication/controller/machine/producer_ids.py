"""Blocks of producer ids that the controller gives to brokers (AllocateProducerIds, KIP-730).

Pure. The block after the one taken last is written under the version of the node that held it: no id is in two blocks,
whoever else takes them (brokers of protocols before 3.0 take theirs from the store themselves).
"""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.controller.machine.events import Done, NewProducerIdBlock, Outcome, ProducerIdsRequested, Write
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import PRODUCER_IDS_PER_BLOCK, ProducerIdBlock
from sordini.replication.ports import Set

_ID_MAX = 2**63 - 1


def next_producer_id_block(last: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock | None:
    """The broker's block when this was the last one taken; None when the cluster has run out of ids."""
    start = 0 if last is None else last.end
    if start > _ID_MAX - PRODUCER_IDS_PER_BLOCK:
        return None
    return ProducerIdBlock(broker_id, start, start + PRODUCER_IDS_PER_BLOCK)


def take(transition: Transition, event: ProducerIdsRequested) -> None:
    """Write the next block for a broker that is known in this life."""
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
        transition.write(Write(operation, NewProducerIdBlock(block)))


def wrote(transition: Transition, purpose: NewProducerIdBlock, outcome: Outcome) -> None:
    """Hand the block over; a write that was refused gives none, and the block taken last has to be read again."""
    transition.reply(None, purpose.block if isinstance(outcome, Done) else ErrorCode.INVALID_UPDATE_VERSION)
