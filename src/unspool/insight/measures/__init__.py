"""Measures: numbers only, one question a file, each a frozen dataclass of arrays."""
