"""Catalogue: all measures of the X-ray, in the order of the report. A new measure is one more line here."""

from __future__ import annotations

from typing import Any

from unspool.insight.measure import Measure
from unspool.insight.sections.activations import ACTIVATIONS
from unspool.insight.sections.attenuation import ATTENUATION
from unspool.insight.sections.fixed_points import FIXED_POINTS
from unspool.insight.sections.flow import FLOW
from unspool.insight.sections.forgetting import FORGETTING
from unspool.insight.sections.frequency import FREQUENCY
from unspool.insight.sections.gates import GATES
from unspool.insight.sections.inputs import INPUTS
from unspool.insight.sections.jacobians import JACOBIANS
from unspool.insight.sections.lyapunov import LYAPUNOV
from unspool.insight.sections.need import NEED
from unspool.insight.sections.participation import PARTICIPATION
from unspool.insight.sections.paths import PATHS
from unspool.insight.sections.saliency import SALIENCY
from unspool.insight.sections.sensitivity import SENSITIVITY
from unspool.insight.sections.shares import SHARES
from unspool.insight.sections.similarity import SIMILARITY
from unspool.insight.sections.streams import STREAMS
from unspool.insight.sections.surprise import SURPRISE
from unspool.insight.sections.time_constants import TIME_CONSTANTS
from unspool.insight.sections.token_states import TOKEN_STATES
from unspool.insight.sections.truncation import TRUNCATION
from unspool.insight.sections.unit_activity import UNIT_ACTIVITY
from unspool.insight.sections.units import UNITS

CATALOGUE: tuple[Measure[Any], ...] = (
    FLOW,
    FORGETTING,
    NEED,
    TRUNCATION,
    SHARES,
    GATES,
    TIME_CONSTANTS,
    ACTIVATIONS,
    ATTENUATION,
    PARTICIPATION,
    INPUTS,
    JACOBIANS,
    LYAPUNOV,
    FIXED_POINTS,
    PATHS,
    FREQUENCY,
    SENSITIVITY,
    STREAMS,
    SIMILARITY,
    UNITS,
    SALIENCY,
    SURPRISE,
    UNIT_ACTIVITY,
    TOKEN_STATES,
)
