"""Records: Produce, Fetch, ListOffsets, DeleteRecords, and a follower's fetches.

`prepared/` serves requests that repeat without decoding them; the handlers here stay the definition of what they do.
`jobs/` opens records that take long in child processes. What follows an append is `replication/acks.py`.
"""
