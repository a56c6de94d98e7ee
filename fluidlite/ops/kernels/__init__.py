"""How some ops are computed, apart from what they mean: plans, scratch buffers, steps of recurrences."""
