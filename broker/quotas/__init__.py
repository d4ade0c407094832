"""Quotas of clients: how much each may send, read, change and connect (KIP-13, 124, 219, 599, 612)."""
