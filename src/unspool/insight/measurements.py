"""Measurements: every measure of one recording, and what could not be measured."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from unspool.errors import UnspoolError
from unspool.insight.measures.activation import Activations, measure_activations
from unspool.insight.measures.attenuation import Attenuation, measure_attenuation
from unspool.insight.measures.fixed_points import FixedPoints, measure_fixed_points
from unspool.insight.measures.flow import GradientFlow, measure_flow
from unspool.insight.measures.forgetting import Forgetting, measure_forgetting
from unspool.insight.measures.frequency import Frequency, measure_frequency
from unspool.insight.measures.gates import Gates, measure_gates
from unspool.insight.measures.jacobians import Jacobians, measure_jacobians
from unspool.insight.measures.lyapunov import Lyapunov, measure_lyapunov
from unspool.insight.measures.participation import Participation, measure_participation
from unspool.insight.measures.sensitivity import Sensitivity, measure_sensitivity
from unspool.insight.measures.shares import WeightShares, measure_shares
from unspool.insight.measures.streams import Streams, measure_streams
from unspool.insight.measures.surprise import Surprise, measure_surprise
from unspool.insight.measures.time_constants import TimeConstants, measure_time_constants
from unspool.insight.measures.token_states import TokenStates, measure_token_states
from unspool.insight.measures.truncation import Truncation, measure_truncation
from unspool.insight.specimen import Specimen

#: Edges between steps that gradients are followed over, at most: what is left of them after so many is no picture.
LAGS = 128
#: Frequencies that are measured; of long sequences fewer, down to the second, as each takes a run over all steps.
WAVES, FEWEST_WAVES = 12, 4
#: Steps that all these runs may have together.
WAVE_STEPS = 5_000


@dataclass(frozen=True, eq=False)
class Measurements:
    """What was measured; None where it could not be, and `missing` says why."""

    flow: GradientFlow | None = None
    truncation: Truncation | None = None
    shares: WeightShares | None = None
    forgetting: Forgetting | None = None
    jacobians: Jacobians | None = None
    lyapunov: Lyapunov | None = None
    fixed_points: FixedPoints | None = None
    frequency: Frequency | None = None
    sensitivity: Sensitivity | None = None
    gates: Gates | None = None
    time_constants: TimeConstants | None = None
    attenuation: Attenuation | None = None
    activations: Activations | None = None
    participation: Participation | None = None
    streams: Streams | None = None
    token_states: TokenStates | None = None
    surprise: Surprise | None = None
    missing: tuple[str, ...] = ()


def measure(
    specimen: Specimen, tell: Callable[[str], None] = lambda _: None, only: Collection[str] | None = None
) -> Measurements:
    """All that there is to measure of a specimen, or `only` some; `tell` hears the name of each as it begins."""
    recording = specimen.recording
    gradient = recording.gradient()
    steps = max(1, *(len(unit.x) for unit in recording.units))
    measures: dict[str, Callable[[], Any]] = {
        "flow": lambda: measure_flow(recording, gradient, LAGS),
        "truncation": lambda: measure_truncation(recording, gradient, LAGS),
        "shares": lambda: measure_shares(recording, gradient),
        "forgetting": lambda: measure_forgetting(recording),
        "jacobians": lambda: measure_jacobians(recording),
        "lyapunov": lambda: measure_lyapunov(recording),
        "fixed_points": lambda: measure_fixed_points(recording),
        "frequency": lambda: measure_frequency(recording, max(FEWEST_WAVES, min(WAVES, WAVE_STEPS // steps))),
        "sensitivity": lambda: measure_sensitivity(recording),
        "gates": lambda: measure_gates(recording),
        "time_constants": lambda: measure_time_constants(recording),
        "attenuation": lambda: measure_attenuation(recording),
        "activations": lambda: measure_activations(recording),
        "participation": lambda: measure_participation(recording),
        "streams": lambda: measure_streams(recording, gradient),
    }
    if specimen.tokens is not None:
        tokens = specimen.tokens
        measures["token_states"] = lambda: measure_token_states(recording, tokens)
        if specimen.surprise is not None:
            nats, live = specimen.surprise, recording.units[-1].live.numpy()
            measures["surprise"] = lambda: measure_surprise(tokens, nats, live)
    found: dict[str, Any] = {}
    missing = list(specimen.missing)
    for name, make in measures.items():
        if only is not None and name not in only:
            continue
        tell(name)
        try:
            found[name] = make()
        except (UnspoolError, np.linalg.LinAlgError, RuntimeError) as error:
            missing.append(f"{name.replace('_', ' ')}: {error}")
    return Measurements(**found, missing=tuple(missing))
