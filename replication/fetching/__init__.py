"""Replica fetchers: one for each leader and fetcher number, which keep this broker's follower replicas up to date.

`fetched_partitions.py` and `session.py` (pure) build the next request, `messages.py` and `backoffs.py` (pure) have
its parts and its pauses; `replica_fetcher.py` sends it and appends the answer, `tail_rounds.py` patches the last
request while one partition gets a few records at a time. `fetcher_manager.py` starts and stops them.

May import the room above it. Never decides where a log is truncated (`follower.py` does), and never raises an in-sync
set.
"""
