"""Imported layers against the library that wrote them, on random input, where that library is installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unspool.exchange.imported import ImportedModel, Part
from unspool.exchange.torch_import import read_tensors, recurrent_groups
from unspool.nn.drop_in import DropIn

Array = NDArray[Any]
#: Of the input that both sides get.
STEPS, ROWS = 9, 3


def compare_with_source(model: ImportedModel, path: str | Path) -> tuple[float | None, str]:
    """The largest difference between imported layers and what the file's own library computes from the file.

    Args:
        model: What `from_torch`, `from_keras` or `from_onnx` gave.
        path: The file that it is from.

    Returns:
        The difference, and with what the layers were compared; None, and why, where there is nothing to compare with.

    Example:
        difference, how = compare_with_source(from_keras("model.keras"), "model.keras")
    """
    compare = {"keras": _with_keras, "onnx": _with_onnx}.get(model.source, _with_torch)
    with torch.no_grad():
        return compare(model.eval(), Path(path))


def _with_torch(model: ImportedModel, path: Path) -> tuple[float | None, str]:
    """Every layer against torch.nn's own, whose weights are those that the file has under the layer's name."""
    tensors = read_tensors(path)
    groups = {prefix.rstrip(".") or "recurrent": names for prefix, names in recurrent_groups(tensors).items()}
    worst = 0.0
    for part in model.parts:
        if isinstance(part.module, DropIn):
            weights = {own: tensors[name] for own, name in groups[part.name].items()}
            x = torch.from_numpy(_draw(part))
            found, expected = part.module(x)[0], _torch_layer(part.module, weights)(x)[0]
        else:
            given = _tokens(part.module.num_embeddings) if isinstance(part.module, nn.Embedding) else _draw(part)
            x = torch.from_numpy(given)
            found, expected = part.module(x), _plain(part, tensors, model)(x)
        worst = max(worst, largest_difference(found.numpy(), expected.numpy()))
    return worst, f"torch.nn {torch.__version__}"


def _torch_layer(ours: Any, weights: dict[str, Tensor]) -> Any:
    """torch.nn's layer with these weights."""
    options = {name: getattr(ours, name) for name in ("num_layers", "bias", "batch_first", "bidirectional")}
    options |= {"nonlinearity": ours.nonlinearity} if isinstance(ours, nn.RNN) else {}
    options |= {"proj_size": ours.proj_size} if ours.proj_size else {}
    theirs = ours.torch_class(ours.input_size, ours.hidden_size, **options).eval()
    theirs.load_state_dict(weights)
    return theirs


def _plain(part: Part, tensors: dict[str, Tensor], model: ImportedModel) -> Callable[[Tensor], Tensor]:
    """An embedding or a linear map of the file's own tensors; a tied head has none, but the embedding's."""
    own = {name.rpartition(".")[2]: one for name, one in tensors.items() if name.rpartition(".")[0] == part.name}
    if isinstance(part.module, nn.Embedding):
        table = own["weight"] if "weight" in own else tensors["weight"]
        return lambda x: functional.embedding(x, table)
    weight = own["weight"] if "weight" in own else tensors.get("weight", tensors.get(f"{model.parts[0].name}.weight"))
    assert weight is not None
    return lambda x: functional.linear(x, weight, own.get("bias"))


def largest_difference(found: Array, expected: Array) -> float:
    """The largest absolute difference of two arrays; infinite where one is not finite, or shapes differ."""
    if found.shape != expected.shape or not (np.isfinite(found).all() and np.isfinite(expected).all()):
        return float("inf")
    return float(np.abs(found - expected).max(initial=0.0))


def _with_keras(model: ImportedModel, path: Path) -> tuple[float | None, str]:
    if path.suffix != ".keras":
        return None, "a file of weights alone says no model that Keras could run"
    if not model.is_chain:
        return None, "the model is no chain of layers"
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        import keras
    except ImportError:
        return None, "Keras is not installed"
    theirs = keras.models.load_model(path, compile=False)  # in its safe mode, which runs no code of the file
    first = model.parts[0].module
    tokens = isinstance(first, nn.Embedding)
    given = _tokens(first.num_embeddings) if isinstance(first, nn.Embedding) else _draw(model.parts[0])
    expected = keras.ops.convert_to_numpy(theirs(given, training=False))
    found = model(torch.from_numpy(given.astype(np.int64) if tokens else given)).numpy()
    return largest_difference(found, expected), f"Keras {keras.__version__}"


def _with_onnx(model: ImportedModel, path: Path) -> tuple[float | None, str]:
    """Every recurrent node by itself in ONNX Runtime."""
    try:
        import onnxruntime
    except ImportError:
        return None, "onnxruntime is not installed"
    from unspool.exchange.onnx_import import constants, read_model, recurrent_nodes

    whole = read_model(path)
    tensors = constants(whole.graph)
    layers = model.layers
    worst = 0.0
    for place, node in enumerate(recurrent_nodes(whole.graph)):
        name = node.name or node.output[0]
        module: Any = layers.get(name, layers.get(f"{place}_{name}"))
        session = onnxruntime.InferenceSession(_alone(whole, node, tensors), providers=["CPUExecutionProvider"])
        x = _draw(Part(name, module))
        expected = session.run(None, {"X": np.ascontiguousarray(x.swapaxes(0, 1))})[0]
        expected = expected.transpose(2, 0, 1, 3).reshape(ROWS, STEPS, -1)
        worst = max(worst, largest_difference(module(torch.from_numpy(x))[0].numpy(), expected))
    return worst, f"ONNX Runtime {onnxruntime.__version__}"


def _alone(whole: Any, node: Any, tensors: dict[str, Any]) -> bytes:
    """A model of one recurrent node: its weights, and X (time, batch, input) in place of what it reads."""
    from onnx import NodeProto, TensorProto, helper, numpy_helper

    names = [name for name in node.input[1:4] if name]
    weights = []
    for name in names:
        tensor = TensorProto()
        tensor.CopyFrom(tensors[name])
        tensor.name = name
        weights.append(tensor)
    starts = ["" if name not in tensors else f"{name}_start" for name in node.input[5:7]]
    weights += [
        numpy_helper.from_array(_spread(numpy_helper.to_array(tensors[name]), node), start)
        for name, start in zip(node.input[5:7], starts, strict=True)
        if start
    ]
    given = [*node.input[1:4], *[""] * (4 - len(node.input[:4])), "", *starts]
    alone = NodeProto(op_type=node.op_type, name="node", input=["X", *given], output=["Y"])
    alone.attribute.extend(one for one in node.attribute if one.name != "layout")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("X", "Y"))
    graph = helper.make_graph([alone], "node", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=whole.opset_import, ir_version=whole.ir_version)
    content: bytes = model.SerializeToString()
    return content


def _spread(state: Array, node: Any) -> Array:
    """An initial state that all sequences share, for as many as are compared: (directions, batch, units)."""
    layout = any(one.name == "layout" and one.i for one in node.attribute)
    by_direction = state.swapaxes(0, 1) if layout else state
    return np.repeat(by_direction[:, :1], ROWS, 1).astype(np.float32)


def _draw(part: Part) -> Array:
    width = part.widths[0]
    return np.random.default_rng(0).normal(size=(ROWS, STEPS, width)).astype(np.float32)


def _tokens(count: int) -> Array:
    return np.random.default_rng(0).integers(0, count, (ROWS, STEPS))
