"""ONNX Runtime: the standard RNN, GRU and LSTM operators; inference only."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.lab.bench.cases import Array, Case
from unspool.lab.bench.contestants.contestant import Contestant, MissingError

#: Cell → the operator, its order of gates in torch.nn's order, its states and its options.
OPERATORS: dict[str, tuple[str, list[int], int, dict[str, Any]]] = {
    "elman": ("RNN", [0], 1, {}),
    "gru": ("GRU", [1, 0, 2], 1, {"linear_before_reset": 1}),
    "lstm": ("LSTM", [0, 3, 1, 2], 2, {}),
}


def onnx_runtime(case: Case, threads: int) -> Contestant:
    """One operator whose weights are part of the model."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise MissingError(f"onnx and onnxruntime are not both installed ({error})") from error
    operator, order, states, options = OPERATORS[case.cell]

    def ordered(value: Array) -> Array:
        gates = np.split(value, len(order))
        return np.concatenate([gates[place] for place in order])

    W, U, b, c = map(ordered, case.weights)
    tensors = {"W": W[None], "R": U[None], "B": np.concatenate([b, c])[None]}
    results = ["Y", "Y_h", "Y_c"][: 1 + states]
    graph = helper.make_graph(
        [helper.make_node(operator, ["X", *tensors], results, hidden_size=case.point.H, **options)],
        "layer",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, case.x.shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    feed = {"X": case.x}
    return Contestant(lambda: session.run(None, feed), None, lambda found: np.asarray(found[0][:, 0]))
