"""Verdicts: rules that turn numbers into judgements, each with a threshold, the evidence and the settings to change."""
