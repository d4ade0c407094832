"""The controller's decisions, pure: `step(cluster state, event)` returns the new state and the actions.

`machine.py` dispatches, `transition.py` collects what one step writes and sends, and each kind of event has its module.

May import `cluster_model.py`, `metadata_store` and `protocol`. Never reads a clock or the store, and never sends.
"""
