"""Transactions at their coordinators and in partitions; `hanging.py` decides which of them hang."""
