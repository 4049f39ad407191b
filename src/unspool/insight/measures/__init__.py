"""Measures: numbers only, one question per file, each a frozen dataclass of arrays. Nothing here draws."""
