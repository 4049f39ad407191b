"""Plays trained models without torch: a network as data, and what computes with it."""
