"""The protocol of KIP-848, pure: `machine.py` takes events and returns the group, the records to append and an answer.

A heartbeat goes through `membership.py` (who is it), `progress.py` (subscription, epoch, target, next step),
`target.py` and `assignors/`, `reconciliation.py`. `classic_requests.py` has members of the classic protocol,
`leaving.py` and `sessions.py` the end of a membership, `record_formats.py` and `folded.py` what is written and read
back; `rebalance_history.py` keeps what moved, and why.
"""
