"""Parts of the rules of authorization; each `Route` has its rule, from these or from its own room's `*_rules.py`."""
