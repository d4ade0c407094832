"""The classic protocol, pure: `machine.py` takes events, the parts are named after what they decide.

`rebalance.py` and `static_members.py` from one generation to the next, `member_sessions.py` heartbeats and commits,
`offset_expiry.py` offsets, `records.py` what is written, `rebalance_history.py` why groups rebalanced.
"""
