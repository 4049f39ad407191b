"""How models learn: building blocks for a training loop of your own, and the loop that `unspool.train` runs.

Every name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy import import_on_use

if TYPE_CHECKING:
    from unspool.learning.averaging import Average as Average
    from unspool.learning.bptt import TruncatedBPTT as TruncatedBPTT
    from unspool.learning.bptt import detach as detach
    from unspool.learning.clipping import clip_gradients as clip_gradients
    from unspool.learning.clipping import gradient_norm as gradient_norm
    from unspool.learning.cross_entropy import linear_cross_entropy as linear_cross_entropy
    from unspool.learning.device import choose_device as choose_device
    from unspool.learning.device import to_device as to_device
    from unspool.learning.gates import double_closed as double_closed
    from unspool.learning.gates import gate_penalty as gate_penalty
    from unspool.learning.gates import neighboring_gates as neighboring_gates
    from unspool.learning.layer_dropout import best_dropout as best_dropout
    from unspool.learning.layer_dropout import measure_activity as measure_activity
    from unspool.learning.lr_finder import find_lr as find_lr
    from unspool.learning.lr_finder import restored as restored
    from unspool.learning.optimizers import make_optimizer as make_optimizer
    from unspool.learning.penalties import activation_penalty as activation_penalty
    from unspool.learning.penalties import temporal_penalty as temporal_penalty
    from unspool.learning.predictive_coding import PredictiveCoding as PredictiveCoding
    from unspool.learning.predictive_coding import alignment as alignment
    from unspool.learning.schedules import Progress as Progress
    from unspool.learning.schedules import make_schedule as make_schedule
    from unspool.learning.teacher_forcing import TeacherForcing as TeacherForcing
    from unspool.learning.teacher_forcing import free_run as free_run

#: Module → the names that it provides here.
_PROVIDED = {
    "averaging": ("Average",),
    "bptt": ("TruncatedBPTT", "detach"),
    "clipping": ("clip_gradients", "gradient_norm"),
    "cross_entropy": ("linear_cross_entropy",),
    "device": ("choose_device", "to_device"),
    "gates": ("double_closed", "gate_penalty", "neighboring_gates"),
    "layer_dropout": ("best_dropout", "measure_activity"),
    "lr_finder": ("find_lr", "restored"),
    "optimizers": ("make_optimizer",),
    "penalties": ("activation_penalty", "temporal_penalty"),
    "predictive_coding": ("PredictiveCoding", "alignment"),
    "schedules": ("Progress", "make_schedule"),
    "teacher_forcing": ("TeacherForcing", "free_run"),
}
_MODULE_OF = {name: module for module, names in _PROVIDED.items() for name in names}
__all__ = sorted(_MODULE_OF)


if not TYPE_CHECKING:  # type checkers shall refuse other names
    __getattr__ = import_on_use(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return [*__all__]
