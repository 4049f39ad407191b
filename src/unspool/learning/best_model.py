"""The weights of the best evaluation so far: in the run's folder, or in memory where there is none."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from unspool.learning.files import read_tensors
from unspool.learning.run_folder import RunFolder


class BestModel:
    """The best weights so far."""

    def __init__(self, folder: RunFolder | None) -> None:
        self._folder = folder
        self._tensors: dict[str, Tensor] = {}

    def keep(self, model: nn.Module, step: int, metrics: Mapping[str, float]) -> None:
        """Keep the weights of a model as they are now."""
        if self._folder is not None:
            self._folder.write_best(model.state_dict(), {"step": step, "validation": metrics})
        else:
            self._tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def load_into(self, model: nn.Module) -> None:
        """Copy the best weights into a model."""
        folder = self._folder
        best = self._tensors if folder is None else read_tensors(folder.path / "model.safetensors")[0]
        model.load_state_dict(best)
