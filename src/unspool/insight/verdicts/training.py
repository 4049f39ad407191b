"""The rule about the course of training: what the losses of the run showed, which no look at the network shows."""

from __future__ import annotations

from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case


def training(case: Case) -> Verdict | None:
    """The advice that the run itself ended with; a warning where something went wrong."""
    course = case.specimen.course
    if course is None:
        return None
    behind = f"The model is not better than {course.behind}." if course.behind else ""
    evidence = behind or "By the training and validation loss of the run."
    title = "Training can be improved" if course.flawed else "What to try next"
    return Verdict("training", "warning" if course.flawed else "note", title, evidence, course.text, course.settings)
