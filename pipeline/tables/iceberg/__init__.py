"""Iceberg tables: snapshots of files, position deletes of upserts, compaction and upkeep."""
