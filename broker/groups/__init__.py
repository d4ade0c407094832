"""Consumer groups: members, rebalances, committed offsets.

Two machines decide (pure): `machine/` of classic groups, whose members assign partitions, and `consumer/machine/` of
those whose coordinator does (KIP-848). `classic_groups.py` and `consumer/groups.py` carry out what they decide,
`shard.py` has both for a partition of __consumer_offsets. `conversion.py` makes one kind of the other while members
live on. `coordinator.py` is what handlers call. The classic machine's actions name the cause of each rebalance;
`machine/rebalance_history.py` folds them.
"""
