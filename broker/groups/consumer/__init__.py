"""Consumer groups whose partitions the coordinator assigns (KIP-848).

`machine/` decides (pure): a heartbeat changes subscriptions and epochs (`heartbeat.py`), the group's target
(`target.py`, `assignors/`), and the member's own partitions (`reconciliation.py`). `groups.py` binds it to a partition
of __consumer_offsets. It knows nothing of the classic protocol's machine; `../conversion.py` knows both.
"""
