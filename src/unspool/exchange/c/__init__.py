"""Models as C99: from networks to source text, weights and programs."""
