"""Delta Lake tables: commits of files, deletion vectors of upserts, compaction and upkeep."""
