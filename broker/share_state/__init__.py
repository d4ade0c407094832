"""The states of share partitions, kept for their leaders in `__share_group_state` (KIP-932).

`machine/` decides (pure): which requests of a leader are in force, and what the topic has of them.
"""
