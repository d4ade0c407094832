"""Access control entries, users that log in by SCRAM, and quotas."""
