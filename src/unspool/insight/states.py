"""States as features: what a trained run computes for every token of some data, for another model to read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import record
from unspool.learning.contract import Extent
from unspool.runs.load import load_run, use
from unspool.storage.files import write_file

Tokens = Sequence[Sequence[str]]

#: All of the data, in one batch.
EVERYTHING = Extent(batch_size=10**9, steps=10**9, bptt=None)


@dataclass(frozen=True, eq=False)
class States:
    """One row per token, or per step: sequence after sequence, in the order of the data.

    Attributes:
        values: the states, (n, width) in float32; of a bidirectional layer forward and backward side by side.
        sequence: the number of the sequence that a row belongs to, (n,).
        step: the step in that sequence, (n,).
        tokens: the token, (n,); empty texts where steps are not tokens.
    """

    values: NDArray[np.float32]
    sequence: NDArray[np.int64]
    step: NDArray[np.int64]
    tokens: NDArray[np.str_]

    def save(self, path: str | Path) -> Path:
        """Write the four arrays, by their names, to a file of NumPy's; `numpy.load(path)` reads it.

        Args:
            path: of the file, which ends in `.npz`.

        Returns:
            The path.
        """
        path = check_npz("path", path)
        content = io.BytesIO()
        np.savez(content, values=self.values, sequence=self.sequence, step=self.step, tokens=self.tokens)
        write_file(path, content.getvalue())
        return path


def check_npz(name: str, path: str | Path) -> Path:
    """The path, if its ending says what is in the file."""
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise ArgumentError.of(name, str(path), "is not a file of arrays", "End it in .npz")
    return path


def extract_states(run: str | Path, data: str | Path | None = None, layer: int | None = None) -> States:
    """The states of a trained run for every token of some data: features that know the context.

    All of the data is read at once; divide a file of more than some hundred thousand tokens.

    Args:
        run: the folder of a run.
        data: a file like that the run was trained on; by default its validation data.
        layer: which recurrent layer, from 1, the lowest; by default the highest one. 0 is what the lowest one reads,
            such as the embeddings of the tokens, which do not know the context.

    Returns:
        The states, with the sequence, the step and the token of each.

    Example:
        >>> states = extract_states("runs/book", "chapter.txt")  # doctest: +SKIP
        >>> states.values.shape, states.tokens[:3]  # doctest: +SKIP
        ((5120, 128), array(['It', 'was', 'a'], dtype='<U12'))
        >>> states.save("chapter.npz")  # doctest: +SKIP
    """
    config, task, learner = load_run(run)
    if data is None:
        task = config.task.prepare(config.data, config.training.seed)
    material = task.material(learner, EVERYTHING, None if data is None else str(data))

    def loss(model: nn.Module) -> Tensor:
        found: Tensor = model(material.batch, learner.initial_state(material.batch_size)).loss
        return found

    recording = use(run, learner, lambda: record(learner, loss))
    chosen = choose_layers(recording.layers, layer, material.tokens)
    return states_of(chosen, material.tokens, inputs=layer == 0)


def choose_layers(layers: Sequence[RecordedLayer], wanted: int | None, tokens: Tokens | None) -> list[RecordedLayer]:
    """Both directions of a layer: of the one that is wanted, or of the highest that reads these tokens."""
    levels = sorted({layer.level for layer in layers})
    if wanted is not None and not 0 <= wanted <= len(levels):
        raise ArgumentError.of("layer", wanted, f"is none of the {len(levels)} layers", f"Give 0 to {len(levels)}")
    fitting = [layer.level for layer in layers if tokens is None or len(layer.live) == len(tokens)]
    level = max(fitting or levels) if wanted is None else levels[max(0, wanted - 1)]
    return [layer for layer in layers if layer.level == level]


def states_of(layers: Sequence[RecordedLayer], tokens: Tokens | None, inputs: bool = False) -> States:
    """The states of the directions of one layer, side by side, or its inputs, at all steps of the sequences."""
    live = layers[0].live.numpy()
    sequence, step = np.nonzero(live.T)
    rows = layers[0].x if inputs else torch.cat([layer.output for layer in layers], -1)
    values = rows.detach().numpy()[step, sequence]
    known = tokens is not None and len(tokens) == len(live)
    words = [tokens[int(t)][int(row)] if known and tokens else "" for t, row in zip(step, sequence, strict=True)]
    return States(values.astype(np.float32), sequence, step, np.array(words, dtype=np.str_))
