"""Metrics that clients push (KIP-714): who pushes what, what was pushed, and who is refused."""
