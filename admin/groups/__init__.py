"""Consumer groups: members, offsets, rebalances, and resets, of which `offset_reset_plan.py` is the decision."""
