"""A network whose states move apart while its gradient vanishes."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "rows": [
        {"cell": "linear", "gain": 2.0, "forward": [0.7], "backward": [0.7]},
        {"cell": "elman", "gain": 2.0, "forward": [0.04], "backward": [-0.01]},
    ]
}
UNDECIDED = None
