"""Verdicts: rules with stated thresholds that turn numbers into what is wrong, how it is known and what to change."""
