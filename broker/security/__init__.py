"""Who peers are and what they may do."""
