"""Share groups (KIP-932): records are handed to members one by one, acknowledged one by one, and handed out again.

`machine/` decides (pure): share partitions, what requests say of them, and share sessions. The rest carries it out, for
the partitions that this broker leads:

    share_fetch_handler ─► sessions ─► share_reading ─► led_share_partition ─► state_writer ─► LeaderStates
    share_acknowledge_handler ───────► acknowledging ──►        │
                                                                └─ timers, what waits, records that are done
"""
