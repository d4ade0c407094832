"""`sordini mirror`: topics of any number of clusters copied into one, exactly once.

    source ── Fetch ──► SourceReader ──► Flow ──► TargetWriter ── Produce ──► target
                                          │            │
                                          │            └─ positions and offset syncs, in the same transaction
                                          └─ groups: committed offsets, translated ──► checkpoints

One `Flow` copies from one source. Record batches are not opened: the mirror writes its own producer id, epoch and
sequence into their headers and computes the CRC again (`batches.py`). What it has copied up to is a record in the
target, in the transaction of what was copied, so a copier that is killed at any moment continues where its last
committed transaction ended. A flow that fails is torn down and begins again from there, as after a kill: there is no
other recovery.

Nothing is copied in a circle: `naming` refuses topics whose name says that they came from the target (`is_cycle`);
merged topics keep their names, so `copies` looks at the records.

Pure: `naming`, `batches`, `formats`, `offset_map`, `plan`. The rest carries out requests on `client/`. Internal topics
have MirrorMaker 2's names and formats (docs/mirror.md).

May import `client` and `protocol`. Never a broker, nor anything that a mirror would have to keep on a disk.
"""
