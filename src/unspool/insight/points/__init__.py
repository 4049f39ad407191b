"""The search for fixed and slow points of a map: solver, starts, fates, recall, spectra, continua."""
