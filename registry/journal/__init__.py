"""The topic of a registry's records: read by every registry of a group, written by the one that the group elects.

    Membership (JoinGroup, SyncGroup, Heartbeat) -> the assignment: which member writes
    Writing    (InitProducerId, Produce)         -> records with the epoch of the writer's term
    Reading    (Fetch)                           -> Replay -> Apply, and the writer's own batches

The group says which registry writes, the log says whether it still may: each term of a writer has a producer epoch of
its own (`term.py`), and the first batch of a term, a NOOP, makes brokers refuse those of all terms before. A term
decides nothing before it has read its NOOP, so every decision is made on all records of earlier terms. Heartbeats,
clocks and pauses may be wrong; two processes that both write lose time, never an id.

Pure: `membership`, `term`, `settings`. Formats of the group are those of the Confluent Schema Registry and of Karapace.

May import `admin`, `client` and `protocol`. Knows nothing of schemas: a record is a key and a value.
"""
