"""X-ray: what a recurrent network remembers and where its gradients die; measures → figures → verdicts → report.

`record` observes a model; every measure takes the recording. Every name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy import import_on_use

if TYPE_CHECKING:
    from unspool.insight.compare import compare_runs as compare_runs
    from unspool.insight.measures.ablation import measure_ablation as measure_ablation
    from unspool.insight.measures.activation import measure_activations as measure_activations
    from unspool.insight.measures.attenuation import measure_attenuation as measure_attenuation
    from unspool.insight.measures.clusters import measure_clusters as measure_clusters
    from unspool.insight.measures.depth import optimal_depth as optimal_depth
    from unspool.insight.measures.fixed_points import find_points as find_points
    from unspool.insight.measures.fixed_points import measure_fixed_points as measure_fixed_points
    from unspool.insight.measures.flow import measure_flow as measure_flow
    from unspool.insight.measures.forgetting import measure_forgetting as measure_forgetting
    from unspool.insight.measures.frequency import measure_frequency as measure_frequency
    from unspool.insight.measures.gates import measure_gates as measure_gates
    from unspool.insight.measures.inputs import measure_inputs as measure_inputs
    from unspool.insight.measures.jacobians import measure_jacobians as measure_jacobians
    from unspool.insight.measures.lyapunov import measure_lyapunov as measure_lyapunov
    from unspool.insight.measures.need import measure_need as measure_need
    from unspool.insight.measures.participation import measure_participation as measure_participation
    from unspool.insight.measures.paths import measure_paths as measure_paths
    from unspool.insight.measures.probes import measure_probe as measure_probe
    from unspool.insight.measures.roles import find_word as find_word
    from unspool.insight.measures.roles import measure_roles as measure_roles
    from unspool.insight.measures.saliency import measure_saliency as measure_saliency
    from unspool.insight.measures.sensitivity import measure_sensitivity as measure_sensitivity
    from unspool.insight.measures.shares import measure_shares as measure_shares
    from unspool.insight.measures.similarity import compare_states as compare_states
    from unspool.insight.measures.similarity import linear_cka as linear_cka
    from unspool.insight.measures.similarity import measure_similarity as measure_similarity
    from unspool.insight.measures.similarity import rsa as rsa
    from unspool.insight.measures.streams import measure_streams as measure_streams
    from unspool.insight.measures.surprise import measure_surprise as measure_surprise
    from unspool.insight.measures.time_constants import measure_time_constants as measure_time_constants
    from unspool.insight.measures.token_states import measure_token_states as measure_token_states
    from unspool.insight.measures.truncation import measure_truncation as measure_truncation
    from unspool.insight.measures.unit_activity import measure_unit_activity as measure_unit_activity
    from unspool.insight.measures.units import measure_unit as measure_unit
    from unspool.insight.recording import Recording as Recording
    from unspool.insight.recording import record as record
    from unspool.insight.states import States as States
    from unspool.insight.states import extract_states as extract_states

#: Module → the names that it provides here.
_PROVIDED = {
    "compare": ("compare_runs",),
    "measures.ablation": ("measure_ablation",),
    "measures.activation": ("measure_activations",),
    "measures.attenuation": ("measure_attenuation",),
    "measures.clusters": ("measure_clusters",),
    "measures.depth": ("optimal_depth",),
    "measures.fixed_points": ("find_points", "measure_fixed_points"),
    "measures.flow": ("measure_flow",),
    "measures.forgetting": ("measure_forgetting",),
    "measures.frequency": ("measure_frequency",),
    "measures.gates": ("measure_gates",),
    "measures.inputs": ("measure_inputs",),
    "measures.jacobians": ("measure_jacobians",),
    "measures.lyapunov": ("measure_lyapunov",),
    "measures.need": ("measure_need",),
    "measures.participation": ("measure_participation",),
    "measures.paths": ("measure_paths",),
    "measures.probes": ("measure_probe",),
    "measures.roles": ("find_word", "measure_roles"),
    "measures.saliency": ("measure_saliency",),
    "measures.sensitivity": ("measure_sensitivity",),
    "measures.shares": ("measure_shares",),
    "measures.similarity": ("compare_states", "linear_cka", "measure_similarity", "rsa"),
    "measures.streams": ("measure_streams",),
    "measures.surprise": ("measure_surprise",),
    "measures.time_constants": ("measure_time_constants",),
    "measures.token_states": ("measure_token_states",),
    "measures.truncation": ("measure_truncation",),
    "measures.unit_activity": ("measure_unit_activity",),
    "measures.units": ("measure_unit",),
    "recording": ("Recording", "record"),
    "states": ("States", "extract_states"),
}
_MODULE_OF = {name: module for module, names in _PROVIDED.items() for name in names}
__all__ = sorted(_MODULE_OF)


if not TYPE_CHECKING:  # type checkers shall refuse other names
    __getattr__ = import_on_use(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return [*__all__]
