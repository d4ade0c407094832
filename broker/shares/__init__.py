"""Share groups (KIP-932): records are handed to members one by one, acknowledged one by one, and handed out again.

`machine/` decides (pure) for one share partition on the leader of its partition.
"""
