"""Subjects: what can be looked into, a model with a batch or the folder of a run, as specimens."""
