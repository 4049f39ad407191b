"""The contestants: one library a file, each given the same weights and the same input."""
