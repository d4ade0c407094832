"""What every coordinator with an internal topic needs. It knows no coordinator.

A coordinator implements `ShardState` (shard.py) and is driven by `runtime.py`; `journal.py` writes its records,
`loading.py` reads them after each change of leadership, `purgatory.py` holds requests meanwhile. `event_queue.py` takes
events through a machine one at a time.
"""
