"""Runs: from settings to a finished run, and back from its folder."""
