"""Sweeps: many runs on the same data, each with other settings; the best of them is kept."""
