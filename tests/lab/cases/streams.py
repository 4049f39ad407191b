"""Gradients that cross even without cross weights."""

from __future__ import annotations

from unspool.lab.chapters.streams import CELLS, SCALES

HOLDS = None
FAILS = {
    "rows": [
        {"cell": cell, "scale": scale, "measured": 0.3, "least": 0.3, "most": 0.3, "difference": 0.0}
        for cell in CELLS
        for scale in SCALES
    ]
}
UNDECIDED = None
