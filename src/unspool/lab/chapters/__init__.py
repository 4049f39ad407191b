"""The experiments, one claim per file, each written with public names only."""
