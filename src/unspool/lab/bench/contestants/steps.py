"""Contestants that take one step at a time at batch 1 and keep their states: from a vector to a vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from unspool.lab.bench.cases import Array
from unspool.lab.bench.contestants.contestant import MissingError
from unspool.lab.bench.timing import Call
from unspool.lab.bench.user_cells import Loop
from unspool.nn.description import describe_layer
from unspool.runtime.network import Stack
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.read import read_stack
from unspool.runtime.stack import StackPlayer
from unspool.runtime.stepper import StackStepper, flatten


def stack_of(layer: Any) -> Stack:
    """A layer of torch as data, as players and exports read it."""
    tensors = {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}
    return read_stack(describe_layer(layer), tensors)


def unspool_steps(stack: Stack, x: Array, options: PlayOptions = PLAIN) -> Call:
    """The player's own steps: x is copied in, the output is copied out."""
    player = StackPlayer(stack, options)
    stepper = StackStepper(player, flatten(player.initial_states(1)))
    read, run, out = stepper.x[0], stepper.step, stepper.out[0]

    def step() -> Array:
        read[:] = x
        run()
        copy: Array = out.copy()
        return copy

    return step


def onnx_steps(model: Path, inputs: dict[str, Array], output: str) -> Call:
    """ONNX Runtime on one thread: final states of a call are initial states of the next."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingError(f"onnxruntime is not installed ({error})") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    shapes = {one.name: one.shape for one in session.get_inputs()}
    initial = [name for name in shapes if name.startswith("initial_")]
    names = [output, *(name.replace("initial_", "final_", 1) for name in initial)]
    feed = {**inputs, **{name: np.zeros((1, shapes[name][-1]), np.float32) for name in initial}}
    run = session.run

    def step() -> Array:
        found, *states = run(names, feed)
        feed.update(zip(initial, states, strict=True))
        row: Array = found[0, 0]
        return row

    return step


def torch_steps(layer: torch.nn.RNNBase, x: Array) -> Call:
    """torch.nn's layer, one step per call."""
    given, state = torch.from_numpy(x)[None, None], None

    @torch.no_grad()
    def step() -> Array:
        nonlocal state
        output, state = layer(given, state)
        row: Array = output[0, 0].numpy()
        return row

    return step


def eager_steps(loop: Loop, x: Array) -> Call:
    """A user's cell in torch operations, its gates stacked."""
    given = torch.from_numpy(x)[None]
    states: tuple[torch.Tensor, ...] = (torch.zeros(1, loop.H),) * loop.states

    @torch.no_grad()
    def step() -> Array:
        nonlocal states
        states = loop.step(torch.nn.functional.linear(given, loop.W, loop.b), *states)
        row: Array = states[0][0].numpy()
        return row

    return step
