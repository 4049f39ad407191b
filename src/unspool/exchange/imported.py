"""ImportedModel: layers that other libraries trained, as modules of unspool.nn and torch.nn, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError

#: What follows a linear map, by the names that libraries share.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda v: v,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softmax": lambda v: v.softmax(-1),
}


@dataclass(frozen=True)
class Part:
    """One layer.

    Attributes:
        name: As in the file.
        module: An Embedding or Linear of torch.nn, or a recurrent layer of unspool.nn with `batch_first`.
        sequence: Whether a recurrent layer passes on its output at every step; otherwise that where each direction
            ends.
        activation: What follows a linear map.
    """

    name: str
    module: nn.Module
    sequence: bool = True
    activation: str = "linear"

    @property
    def widths(self) -> tuple[int, int]:
        """Of the input and of the output; an embedding's input is 0 wide."""
        module: Any = self.module
        match module:
            case nn.Embedding():
                return 0, module.embedding_dim
            case nn.Linear():
                return module.in_features, module.out_features
            case nn.RNNBase():
                shown = module.proj_size or module.hidden_size
                return module.input_size, shown * (2 if module.bidirectional else 1)
        return module.input_size, module.output_size

    @property
    def recurrent(self) -> bool:
        """Whether it is a recurrent layer."""
        return not isinstance(self.module, nn.Embedding | nn.Linear)


class ImportedModel(nn.Module):
    """Layers of another library's file.

    A call runs them one after the other over x (batch, time, width), or over tokens (batch, time).

    Args:
        source: The library.
        parts: The layers in the order of the data.
        notes: What the file does not say and was assumed, and what was left out.
        chain: Whether each layer reads what the one before it gives, as far as the file says.

    Example:
        >>> model = unspool.exchange.from_keras("model.keras")
        >>> print(model.report())
        >>> model.layers["lstm"]
        Recurrent(LSTM(projection=None), 64, 128)
    """

    def __init__(self, source: str, parts: Sequence[Part], notes: Sequence[str] = (), chain: bool = True) -> None:
        super().__init__()
        self.source, self.parts, self.notes = source, tuple(parts), tuple(notes)
        self._chain = chain
        self.modules_in_order = nn.ModuleList(part.module for part in parts)

    @property
    def layers(self) -> dict[str, nn.Module]:
        """The modules by the names that they have in the file."""
        return {part.name: part.module for part in self.parts}

    @property
    def recurrent(self) -> list[nn.Module]:
        """The recurrent layers alone, from the lowest up."""
        return [part.module for part in self.parts if part.recurrent]

    @property
    def is_chain(self) -> bool:
        """Whether every layer reads what the one before it gives."""
        widths = [part.widths for part in self.parts]
        return self._chain and all(below[1] == above[0] for below, above in pairwise(widths))

    def forward(self, x: Tensor, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        """The output of the last layer; of sequences of other lengths than x, padding changes nothing."""
        if not self.is_chain:
            problem = "do not read what the one before them gives"
            raise ArgumentError.of("layers", list(self.layers), problem, "Call the modules in `layers` one by one")
        for part in self.parts:
            x = _run(part, x, lengths) if part.recurrent else part.module(x)
            if part.activation != "linear":
                x = ACTIVATIONS[part.activation](x)
        return x

    def report(self) -> str:
        """What was found, one line per layer, and the notes."""
        lines = [f"{self.source}: {len(self.parts)} layer(s)"]
        for part in self.parts:
            count = sum(parameter.numel() for parameter in part.module.parameters())
            lines.append(f"  {part.name}: {_describe(part)}, {count:,} parameters")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _describe(part: Part) -> str:
    module = str(part.module).partition("\n")[0].removesuffix("(")
    return module if part.activation == "linear" else f"{module}, {part.activation}"


def _run(part: Part, x: Tensor, lengths: Sequence[int] | Tensor | None) -> Tensor:
    module: Any = part.module
    output, _ = module(x, lengths=lengths)
    return output if part.sequence else _ends(part, output, lengths)


def _ends(part: Part, output: Tensor, lengths: Sequence[int] | Tensor | None) -> Tensor:
    """What each direction gives where it ends: (batch, width)."""
    from unspool.nn import Bidirectional, LastState

    module: Any = part.module
    if getattr(module, "reverse", False):
        return output[:, 0]
    both = isinstance(module, Bidirectional) or bool(getattr(module, "bidirectional", False))
    pooled: Tensor = LastState(output.shape[-1], bidirectional=both, batch_first=True)(output, lengths=lengths)
    return pooled


def chained(parts: Sequence[Part]) -> list[Part]:
    """Parts in an order in which each reads what the one before it gives, if there is one; otherwise as they are.

    Embeddings come first and linear maps last; among the others, those that come first in the file.
    """
    rank = {part.name: (0 if isinstance(part.module, nn.Embedding) else 1 if part.recurrent else 2) for part in parts}
    left = sorted(parts, key=lambda part: rank[part.name])
    given = {part.widths[1] for part in left}
    first = next((part for part in left if part.widths[0] == 0 or part.widths[0] not in given), left[0])
    order = [first]
    left.remove(first)
    while left:
        following = next((part for part in left if part.widths[0] == order[-1].widths[1]), None)
        if following is None:
            return sorted(parts, key=lambda part: rank[part.name])
        order.append(following)
        left.remove(following)
    return order
