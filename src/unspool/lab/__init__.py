"""The lab: the field's claims, each re-run; data generators; and what a chapter is written with.

Every name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy import import_on_use

if TYPE_CHECKING:
    from unspool.lab import data as data
    from unspool.lab.catalogue import find_chapter as find_chapter
    from unspool.lab.catalogue import find_claim as find_claim
    from unspool.lab.chapter import Bars as Bars
    from unspool.lab.chapter import Chapter as Chapter
    from unspool.lab.chapter import Found as Found
    from unspool.lab.chapter import HeatMap as HeatMap
    from unspool.lab.chapter import Lines as Lines
    from unspool.lab.chapter import Mark as Mark
    from unspool.lab.chapter import Series as Series
    from unspool.lab.chapter import Shown as Shown
    from unspool.lab.chapter import Study as Study
    from unspool.lab.chapter import Table as Table
    from unspool.lab.claims import CLAIMS as CLAIMS
    from unspool.lab.claims import Claim as Claim
    from unspool.lab.theory.cost import count_kept as count_kept
    from unspool.lab.theory.cost import measure_cost as measure_cost
    from unspool.lab.theory.depth import fit_depth as fit_depth
    from unspool.lab.theory.kalman import Process as Process
    from unspool.lab.theory.kalman import filter_states as filter_states
    from unspool.lab.theory.kalman import smooth_states as smooth_states
    from unspool.lab.training import accuracy as accuracy
    from unspool.lab.training import fit as fit
    from unspool.lab.verdict import Interval as Interval
    from unspool.lab.verdict import Verdict as Verdict
    from unspool.lab.verdict import above as above
    from unspool.lab.verdict import all_of as all_of
    from unspool.lab.verdict import at_least as at_least
    from unspool.lab.verdict import at_most as at_most
    from unspool.lab.verdict import below as below
    from unspool.lab.verdict import interval_of as interval_of

#: Module → the names that it provides here.
_PROVIDED = {
    "catalogue": ("find_chapter", "find_claim"),
    "chapter": ("Bars", "Chapter", "Found", "HeatMap", "Lines", "Mark", "Series", "Shown", "Study", "Table"),
    "claims": ("CLAIMS", "Claim"),
    "theory.depth": ("fit_depth",),
    "theory.cost": ("count_kept", "measure_cost"),
    "theory.kalman": ("Process", "filter_states", "smooth_states"),
    "training": ("accuracy", "fit"),
    "verdict": ("Interval", "Verdict", "above", "all_of", "at_least", "at_most", "below", "interval_of"),
}
_MODULE_OF = {name: module for module, names in _PROVIDED.items() for name in names}
__all__ = ["data", *sorted(_MODULE_OF)]


if not TYPE_CHECKING:  # type checkers shall refuse other names
    __getattr__ = import_on_use(__name__, {**_MODULE_OF, "data": ""})


def __dir__() -> list[str]:
    return [*__all__]
