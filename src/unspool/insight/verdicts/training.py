"""The rule about the course of training: what the losses of the run showed, which no look at the network shows."""

from __future__ import annotations

from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case
from unspool.language import Message, words


def training(case: Case) -> Verdict | None:
    """The advice that the run itself ended with; a warning where something went wrong."""
    course = case.specimen.course
    if course is None:
        return None
    evidence = words("By the training and validation loss of the run.")
    if course.behind:
        evidence = Message("The model is not better than {behind}.", behind=words(course.behind))
    title = "Training can be improved" if course.flawed else "What to try next"
    return Verdict("training", "warning" if course.flawed else "note", title, evidence, course.text, course.settings)
