"""Share groups (KIP-932): offsets, resets, records in flight, and dead letters that are copied back (KIP-1191)."""
