"""The transaction coordinator, built as the groups' is, and what leaders do for transactions.

`machine/` decides for one transactional id (pure), `shard.py` binds it to a partition of __transaction_state,
`coordinator.py` is what handlers call. `marker_sender.py` brings the markers of a decided transaction to the leaders.
`verification.py` admits first appends (KIP-890). It is above `groups`, because a transaction commits their offsets.
"""
