"""Requests to other brokers: the channel for commands, AlterPartition, controlled shutdown, producer ids.

Without a controller that serves such a request (a cluster with Apache Kafka 2.7) the same change is written into the
coordination store (`isr_in_store.py`, `producer_ids_in_store.py`). Replica fetchers have connections of their own
(`replication/fetching`).
"""
