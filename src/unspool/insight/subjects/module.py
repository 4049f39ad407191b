"""A model of torch and a batch as a specimen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.insight.recording import record
from unspool.insight.specimen import Specimen
from unspool.nn.rnn import DropIn

Loss = Callable[[Any], Tensor]


def take_model(model: nn.Module, batch: Any, loss: Loss | None = None, window: int | None = None) -> Specimen:
    """`model` run over `batch`: a tensor, a tuple of arguments, or a dict of named ones.

    `loss` makes a number of what the model gives. Without it, what is followed is the loss that the model gives itself,
    as one number or under the name "loss"; else a random projection of all that it gives: it stands for a loss at every
    step that cares about every output alike. `window` is how many steps gradients go back in training, if they do not
    go all the way.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentTypeError.of("model", model, "is not a torch.nn.Module", "Give a model, or the folder of a run")
    if batch is None:
        raise ArgumentError.of("batch", None, "is missing", "Give what the model reads: xray(model, x)")
    given = _arguments(batch)
    followed = [""]

    def run(model: nn.Module) -> Tensor:
        output = model(*given[0], **given[1])
        followed[0] = "the loss"
        if loss is not None:
            return loss(output)
        own = output.get("loss") if isinstance(output, Mapping) else output
        if isinstance(own, Tensor) and not own.dim():
            return own
        followed[0] = "a random projection of the output"
        return project(output)

    recording = record(model, run)
    if not any(bool(unit.live.any()) for unit in recording.units):
        raise ArgumentError.of("batch", tuple(recording.units[0].x.shape), "has no steps", "Give rows with steps")
    widths = [unit.output.shape[-1] for unit in recording.units]
    steps, rows = max((unit.live.shape for unit in recording.units), key=lambda shape: shape[0])
    facts = (
        ("model", type(model).__name__),
        ("cells", ", ".join(dict.fromkeys(unit.equations.title for unit in recording.units))),
        ("layers", ", ".join(f"{unit.label}: {width}" for unit, width in zip(recording.units, widths, strict=True))),
        ("parameters", f"{sum(parameter.numel() for parameter in model.parameters()):,}"),
        ("data", f"{rows} row(s) of {steps} steps"),
        ("followed", f"{followed[0]}, {float(recording.loss.detach()):.4g}"),
    )
    return Specimen(recording, f"X-ray of {type(model).__name__}", facts, window=window, missing=tuple(_unseen(model)))


def _unseen(model: nn.Module) -> Iterator[str]:
    """Recurrent modules of torch that cannot be looked into."""
    for name, module in model.named_modules():
        kind = type(module)
        if isinstance(module, nn.RNNCellBase) or (
            isinstance(module, nn.RNNBase) and not isinstance(module, DropIn) and kind not in (nn.RNN, nn.GRU, nn.LSTM)
        ):
            yield f"{name or 'the model'} ({kind.__name__}): only torch.nn.RNN, GRU and LSTM themselves are seen into."


def project(output: Any) -> Tensor:
    """All floating numbers of an output, each times ±1 by a draw that is always the same, as one number."""
    found = list(_tensors(output))
    if not found:
        raise ArgumentTypeError.of("output", type(output).__name__, "has no tensor of numbers", "Give a loss")
    generator = torch.Generator().manual_seed(0)
    first = found[0]  # of (output, state) the output says it all
    signs = torch.randint(0, 2, first.shape, generator=generator).to(first) * 2 - 1
    return (signs * first).sum() / math.sqrt(max(1, first.numel()))


def _tensors(output: Any) -> list[Tensor]:
    if isinstance(output, PackedSequence):
        return [output.data]
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        return [tensor for part in output.values() for tensor in _tensors(part)]
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in _tensors(part)]
    return []


def _arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, PackedSequence) or not isinstance(batch, Mapping | tuple | list):
        return (batch,), {}
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return tuple(batch), {}
