"""Layers of unspool.nn in forms that run without it, and what such forms are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.errors import MissingPackageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unspool.exchange.onnx.write import OnnxExport
    from unspool.runtime.run_player import RunPlayer

__all__ = ["onnx", "onnx_inputs"]


def onnx(
    module: Any, path: str | Path, *, lengths: bool = True, states: bool = True, overwrite: bool = False
) -> OnnxExport:
    """Write recurrent layers as an ONNX file, emitted from their equations and checked by ONNX Runtime.

    A cell that is one of ONNX's own operators RNN, GRU and LSTM becomes that operator, and any other a `Scan`. Batch
    and time are dynamic. Inputs are `x`, `lengths` (batch,), and for every state (batch, width) `initial_layer0_h`,
    with the number of the layer; of a bidirectional layer `initial_layer0_forward_h` and `initial_layer0_backward_h`.
    Outputs are `output` and `final_layer0_h` and so on. Numbers are in float32. `x` is (time, batch, input_size), or as
    the module has `batch_first`.

    Args:
        module: A Recurrent, Bidirectional, Stack, TimeDelay, RNN, GRU or LSTM of `unspool.nn`, or torch.nn's.
        path: The file.
        lengths: Whether `lengths` is an input; otherwise every sequence is as long as `x`.
        states: Whether initial states are inputs; otherwise they are the module's own, zeros or what it learned.
        overwrite: Whether a file that exists is replaced.

    Returns:
        The files, the opset, the operators, and the largest difference between ONNX Runtime and the module's equations
        in NumPy at several lengths and batch sizes, None where onnxruntime is not installed.

    Raises:
        ArgumentError: The module is of another kind, or the file exists.
        StorageError: The file cannot be written.

    Example:
        >>> print(unspool.export.onnx(unspool.nn.Recurrent("gru", 64, 128), "gru.onnx"))
        gru.onnx: opset 17, GRU; ONNX Runtime differs by at most 1.2e-07
    """
    with MissingPackageError.explaining("unspool.export.onnx"):
        from unspool.exchange.onnx.write import write_layers
        from unspool.nn.description import describe_layer
    from unspool.runtime.read import read_stack

    document = describe_layer(module)
    tensors = {name: tensor.detach().cpu().float().numpy() for name, tensor in module.state_dict().items()}
    batch_first = bool(module.batch_first)
    return write_layers(
        read_stack(document, tensors),
        path,
        batch_first=batch_first,
        lengths=lengths,
        states=states,
        overwrite=overwrite,
    )


def onnx_inputs(player: RunPlayer, examples: Any) -> dict[str, NDArray[Any]]:
    """Make the inputs of the ONNX file of a run: ids, lengths, n-grams, initial states.

    Args:
        player: What `unspool.load` gives for the same run.
        examples: As `player.predict` takes them; for a language model one text, or its ids.

    Returns:
        Arrays by the names of the file's inputs; of text to text, those of the encoder. Numbers are standardized.

    Example:
        >>> session = onnxruntime.InferenceSession("intents.onnx")
        >>> inputs = unspool.export.onnx_inputs(unspool.load("runs/intents"), ["play some jazz"])
        >>> session.run(["probabilities"], inputs)
    """
    from unspool.exchange.onnx.inputs import make_inputs

    return make_inputs(player, examples)
