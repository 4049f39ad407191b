"""Predictions that need no training by gradients, which a model must beat: counts, means and autoregressions."""
