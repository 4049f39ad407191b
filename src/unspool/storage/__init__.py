"""Files of a run: complete or not there when they are written, whole or refused when they are read; without torch."""
