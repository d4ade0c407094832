"""The active controller of a cluster: `machine/` decides, this room carries its actions out.

`controller.py` takes signals of the store one by one, `controller_election.py` elects, `store_signals.py` and
`store_reader.py` make events of changes, `store_writer.py` writes. `requests.py` is the interface for handlers,
`rebalance_timer.py` says when the leader rebalance is due.

May import `replication/metadata_store` and the ports. A decision is a conditional write: only its outcome changes the
state and sends commands, and a controller that lost the store reads everything again before it decides.
"""
