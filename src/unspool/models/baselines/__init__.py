"""Baselines: models without memory, against which a recurrence is compared."""
