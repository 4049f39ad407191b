"""Theory: formulas of the field beside what networks do: cost by length, depth, filtering and smoothing."""
