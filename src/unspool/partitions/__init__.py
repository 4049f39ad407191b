"""Predictions for many files: one output file per input file, here or on a cluster; without torch."""
