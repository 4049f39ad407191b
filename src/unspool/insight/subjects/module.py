"""A torch module and a batch as a specimen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.insight.recording import Recording, record
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.parameters import tell_parameters
from unspool.language import Message, listed, words
from unspool.nn.drop_in import DropIn
from unspool.nn.leaves import leaves

Loss = Callable[[Any], Tensor]
#: What is followed if there is no loss.
PROJECTION = "a random projection of the output"


def take_model(model: nn.Module, batch: Any, loss: Loss | None = None, bptt: int | None = None) -> Specimen:
    """A module run over a batch.

    Args:
        model: has recurrent layers of `unspool.nn` or `torch.nn`.
        batch: a tensor, a tuple of arguments or a dict of named ones.
        loss: makes one number of the module's output. By default the loss that the module returns, as one number or
            under the name "loss"; else a random projection of the output, which stands for a loss at every step that
            weighs all outputs alike.
        bptt: steps that gradients go back in training, if they do not go all the way.

    Returns:
        The recorded module.

    Example:
        >>> specimen = take_model(torch.nn.GRU(3, 4), torch.randn(9, 2, 3))
    """
    if not isinstance(model, nn.Module):
        raise ArgumentTypeError.of("model", model, "is not a torch.nn.Module", "Give a module or the folder of a run")
    if batch is None:
        raise ArgumentError.of("batch", None, "is missing", "Give what the model reads: `xray(model, x)`")
    given = _arguments(batch)
    followed = [""]

    def run(model: nn.Module) -> Tensor:
        found, followed[0] = _follow(model(*given[0], **given[1]), loss)
        return found

    recording = record(model, run)
    _refuse_without_steps(recording)
    of = Message("{what}, {loss:.4g}", what=words(followed[0]), loss=float(recording.loss.detach()))
    facts = (*_describe(model, recording), ("gradient of", of))
    title = Message("X-ray of {name}", name=type(model).__name__)
    stand_in = followed[0] == PROJECTION
    return Specimen(recording, title, facts, bptt=bptt, missing=tuple(_unseen(model)), stand_in=stand_in)


def _follow(output: Any, loss: Loss | None) -> tuple[Tensor, str]:
    """The number whose gradient is followed, and what it is."""
    if loss is not None:
        return loss(output), "the loss"
    own = output.get("loss") if isinstance(output, Mapping) else output
    if isinstance(own, Tensor) and not own.dim():
        return own, "the loss"
    return project(output), PROJECTION


def _refuse_without_steps(recording: Recording) -> None:
    if not any(bool(layer.live.any()) for layer in recording.layers):
        shape = tuple(recording.layers[0].x.shape)
        raise ArgumentError.of("batch", shape, "has no steps", "Give sequences with at least one step")


def _describe(model: nn.Module, recording: Recording) -> tuple[tuple[str, str], ...]:
    widths = [
        Message("{label}: {width}", label=layer.label, width=layer.output.shape[-1]) for layer in recording.layers
    ]
    steps, sequences = max((layer.live.shape for layer in recording.layers), key=lambda shape: shape[0])
    return (
        ("model", type(model).__name__),
        ("cells", ", ".join(dict.fromkeys(layer.equations.title for layer in recording.layers))),
        ("layers", listed(widths)),
        ("parameters", tell_parameters(model)),
        ("data", Message("{sequences} sequence(s) of {steps} steps", sequences=sequences, steps=steps)),
    )


def _unseen(model: nn.Module) -> Iterator[str]:
    """Recurrent modules of torch that cannot be recorded."""
    for name, module in model.named_modules():
        kind = type(module)
        if isinstance(module, nn.RNNCellBase) or (
            isinstance(module, nn.RNNBase) and not isinstance(module, DropIn) and kind not in (nn.RNN, nn.GRU, nn.LSTM)
        ):
            yield Message(
                "{name} ({kind}): only torch.nn.RNN, GRU and LSTM can be recorded.",
                name=name or words("the model"),
                kind=kind.__name__,
            )


def project(output: Any) -> Tensor:
    """A random projection of an output: each number times ±1, always by the same draw, and their sum."""
    found = [tensor for tensor in leaves(output) if tensor.is_floating_point()]
    if not found:
        raise ArgumentTypeError.of("output", type(output).__name__, "has no floating-point tensor", "Give a `loss`")
    generator = torch.Generator().manual_seed(0)
    first = found[0]  # of (output, state), the output depends on every state
    signs = torch.randint(0, 2, first.shape, generator=generator).to(first) * 2 - 1
    return (signs * first).sum() / math.sqrt(max(1, first.numel()))


def _arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(batch, PackedSequence) or not isinstance(batch, Mapping | tuple | list):
        return (batch,), {}
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return tuple(batch), {}
