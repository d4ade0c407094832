"""The last read of a run: everything that is there, in the clients' way."""

from __future__ import annotations

from sordini.protocol.types import TopicId, TopicPartition
from tests.sim.consumer import Consumer, ConsumerRules
from tests.sim.history import History, Poll
from tests.sim.world import ADDRESS, World


async def read_all(world: World, topics: dict[TopicPartition, TopicId], give_up: float) -> None:
    """Read everything that is there; what counts of a partition is what follows the last reset."""
    read = History()
    reader = Consumer("final", world.network, ADDRESS, topics, read, ConsumerRules(total_bytes=1 << 20), 0)
    began = world.loop.time()
    ends = await reader.ends(give_up)
    await reader.run_to(ends, give_up)
    for partition, end in ends.items():
        resets = [reset.earliest for reset in read.resets if reset.partition == partition]
        start = resets[-1] if resets else 0
        polls = [poll for poll in read.polls if poll.partition == partition and poll.session == len(resets) + 1]
        seen = tuple(record for poll in polls for record in poll.seen)
        world.history.final[partition] = Poll(
            "final",
            1,
            began,
            world.loop.time(),
            partition,
            start,
            seen,
            max([end, *(p.high_watermark for p in polls)]),
        )
    world.history.resets += read.resets
