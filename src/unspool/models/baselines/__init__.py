"""Baselines: models without memory, n-grams, counts and plain forecasts, against which a recurrence is compared."""
