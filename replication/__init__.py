"""Replicas of a partition: leader, follower, replica fetchers, acknowledgements, and the controller of a cluster.

`leader.py` and `follower.py` decide (pure, one object for each leader epoch) the in-sync set and the high watermark,
`follower_truncation.py` where a log is truncated; `partition.py` carries that out on one log, `replica_set.py` on all
of this broker's.
`acks.py` is the end of each append by a leader, of coordinators too. `ports.py` has the clock and the coordination
store as ports.

May import `storage`, `client` and `protocol`. Never opens a socket and knows no store but the port; never reports or
uses an in-sync set that was only proposed; never truncates by anything but leader epochs, unless the leader has none.
"""
