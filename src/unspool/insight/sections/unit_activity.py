"""Unit activity over text in the report."""

from __future__ import annotations

from unspool.insight.figures.text import draw_unit_activity
from unspool.insight.measure import Measure
from unspool.insight.measures.unit_activity import UnitActivity, measure_unit_activity
from unspool.insight.report.contract import Section
from unspool.insight.sections.surprise import applies
from unspool.language import Message


def tell(found: UnitActivity) -> Section:
    """What some units do over the text."""
    return Section(
        "unit_activity",
        "Units over text",
        "What does a unit respond to?",
        Message(
            "Each row is one unit of {label} over the beginning of a text. The units that vary most are shown. Some "
            "units count, some wait for a quotation mark or the end of a line; most do nothing that has a name.",
            label=found.label,
        ),
        "",
        lambda: (draw_unit_activity(found),),
    )


UNIT_ACTIVITY = Measure(
    key="unit_activity",
    measure=lambda specimen: measure_unit_activity(specimen.recording, specimen.text),
    tell=tell,
    applies=applies,
)
