"""From equations to numbers without torch."""

from unspool.engine.reference import run as run
