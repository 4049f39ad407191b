"""The weights of the best evaluation so far: in the run's folder, or in memory where there is none."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from unspool.cells.numbers import is_whole
from unspool.errors import DataError
from unspool.learning.files import forms_of, read_tensors
from unspool.learning.run_folder import RunFolder
from unspool.storage.run import MODEL
from unspool.storage.tensors import find_mismatch


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

    def check(self, step: int, model: nn.Module) -> None:
        """Refuse to resume a run whose best weights, of this step or a later one, are not there or do not fit."""
        if self._folder is None:
            return
        path = self._folder.path / MODEL
        tensors, facts = read_tensors(path)
        self._folder.origin.check(facts, path)
        found = facts.get("step")
        if not is_whole(found) or found < step:
            raise DataError(f"{path} is of step {found!r}, and the best model so far is of step {step}. Restore it.")
        if misfit := find_mismatch(forms_of(model.state_dict()), forms_of(tensors)):
            raise DataError(f"{path} does not fit the model: {misfit}. Restore it.")

    def load_into(self, model: nn.Module) -> None:
        """Copy the best weights into a model."""
        folder = self._folder
        best = self._tensors if folder is None else read_tensors(folder.path / MODEL)[0]
        model.load_state_dict(best)
