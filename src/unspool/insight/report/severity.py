"""How serious a verdict is: the word, the mark and the plural that every view shows."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["fault", "warning", "note", "good"]


class Look(NamedTuple):
    """How a severity is recognized without its color."""

    word: str
    plural: str
    mark: str  #: in plain text
    drawing: str  #: the path of its icon, in a square of 24


#: The most serious first.
LOOKS: dict[str, Look] = {
    "fault": Look("Fault", "faults", "✖", "M8 2h8l6 6v8l-6 6H8l-6-6V8zM8.5 8.5l7 7M15.5 8.5l-7 7"),
    "warning": Look("Warning", "warnings", "▲", "M12 3 22.5 21H1.5zM12 10v5M12 17.6v.4"),
    "note": Look("Note", "notes", "●", "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zM12 11v6M12 7v.4"),
    "good": Look("Good", "good signs", "✔", "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zM7.5 12.5l3 3 6-6.5"),
}
