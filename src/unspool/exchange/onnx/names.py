"""Names of the states that a model in ONNX takes and gives."""

from __future__ import annotations

from unspool.runtime.network import Stack


def state_names(stack: Stack) -> list[list[list[str]]]:
    """A name for every state of every direction of every layer.

    `layer0_h` is the state h of the lowest layer; of two directions `layer0_forward_h` and `layer0_backward_h`. Inputs
    are called `initial_layer0_h`, outputs `final_layer0_h`.
    """
    return [
        [
            [f"layer{level}_{way}{state}" for state in one.equations.states]
            for one, way in zip(layer.directions, _ways(len(layer.directions)), strict=True)
        ]
        for level, layer in enumerate(stack.layers)
    ]


def _ways(directions: int) -> tuple[str, ...]:
    return ("",) if directions == 1 else ("forward_", "backward_")
