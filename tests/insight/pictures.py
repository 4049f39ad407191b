"""Every picture of layers, listed once, and how its numbers are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
from tests.insight import made_up_looks
from tests.insight import made_up_measures as made_up

from unspool.insight.figures import (
    dynamics,
    fixed_points,
    frequency,
    gates,
    gradient,
    hidden_units,
    jacobians,
    memory,
    paths,
    similarity,
    units,
)

#: Every picture of layers, with a measure made for some labels.
OF_LAYERS: dict[str, tuple[Callable[[Any], go.Figure], Callable[[tuple[str, ...]], Any]]] = {
    "gradient map": (gradient.draw_gradient_map, made_up.flow),
    "survival": (gradient.draw_survival, made_up.flow),
    "shares": (gradient.draw_step_shares, made_up.shares),
    "truncation": (gradient.draw_truncation, made_up.truncation),
    "streams": (gradient.draw_streams, made_up.streams),
    "lag bands": (jacobians.draw_lag_bands, made_up.jacobians),
    "step bands": (jacobians.draw_step_bands, made_up.jacobians),
    "gate maps": (gates.draw_gate_maps, made_up.gates),
    "gate histograms": (gates.draw_gate_histograms, made_up.gates),
    "time constants": (gates.draw_time_constants, made_up.time_constants),
    "attenuation": (gates.draw_attenuation, made_up.attenuation),
    "bode": (frequency.draw_bode, made_up.frequency),
    "sensitivity": (memory.draw_sensitivity, made_up.sensitivity),
    "forgetting": (memory.draw_forgetting, made_up.forgetting),
    "lyapunov": (dynamics.draw_lyapunov, made_up.lyapunov),
    "eigenvalues": (fixed_points.draw_eigenvalues, made_up.fixed_points),
    "phase portrait": (fixed_points.draw_phase_portrait, made_up.fixed_points),
    "modes at fixed points": (fixed_points.draw_modes, made_up.fixed_points),
    "participation": (hidden_units.draw_participation, made_up.participation),
    "ablation": (units.draw_ablation, made_up_looks.ablation),
    "similarity": (similarity.draw_similarity, made_up_looks.similarity),
    "paths": (paths.draw_paths, made_up_looks.paths),
    "inputs": (hidden_units.draw_inputs, made_up.inputs),
    "activations": (hidden_units.draw_activations, made_up.activations),
}


def near(shown: Any, measured: Any) -> None:
    """To the four digits that are kept, gaps where there is no number."""
    found, true = np.array(shown, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    np.testing.assert_allclose(found, np.where(np.isfinite(true), true, np.nan), rtol=5.001e-4, atol=0)


def texts(value: Any) -> list[str]:
    """Every string in a figure's JSON that plotly may show; the template and the layout's settings are ours."""
    if isinstance(value, dict):
        return [one for part in value.values() for one in texts(part)]
    if isinstance(value, list):
        return [one for part in value for one in texts(part)]
    return [value] if isinstance(value, str) else []
