"""Cells that a user might write, each with the torch loop that it saves him from writing."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells import Cell, normalise, sigmoid, tanh
from unspool.cells.symbols import Symbol
from unspool.nn import Recurrent


class RewrittenLSTM(Cell):
    """The LSTM's equations in a user's own words, so that nothing knows it for a built-in cell."""

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        take = sigmoid(self.linear("i", x, h))
        keep = sigmoid(self.linear("f", x, h))
        new = tanh(self.linear("g", x, h))
        show = sigmoid(self.linear("o", x, h))
        memory = keep * c + take * new
        return show * tanh(memory), memory


class LayerNormLSTM(Cell):
    """LSTM whose gates and memory are normalised over the units, scaled by s and shifted by t."""

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i = sigmoid(self.normal("i", self.linear("i", x, h, bias=False)))
        f = sigmoid(self.normal("f", self.linear("f", x, h, bias=False)))
        g = tanh(self.normal("g", self.linear("g", x, h, bias=False)))
        o = sigmoid(self.normal("o", self.linear("o", x, h, bias=False)))
        c = f * c + i * g
        h = o * tanh(self.normal("c", c))
        return h, c

    def normal(self, name: str, v: Symbol) -> Symbol:
        return self.vector(f"s_{name}", 1.0) * normalise(v) + self.vector(f"t_{name}")


class PeepholeLSTM(Cell):
    """LSTM whose gates see the memory through a weight per unit."""

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i = sigmoid(self.linear("i", x, h) + self.vector("p_i", 0.1) * c)
        f = sigmoid(self.linear("f", x, h) + self.vector("p_f", 0.1) * c)
        g = tanh(self.linear("g", x, h))
        c = f * c + i * g
        o = sigmoid(self.linear("o", x, h) + self.vector("p_o", 0.1) * c)
        h = o * tanh(c)
        return h, c


class ThreeStages(Cell):
    """A gated cell with three products in a row: r, then n of r ∘ h, then m of n."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        r = sigmoid(self.linear("r", x, h))
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x, r * h))
        m = tanh(self.linear("m", n))
        return (1 - z) * h + z * m


class Loop(nn.Module):
    """A torch loop with a layer's weights and the gates stacked; a careful one has the products with x ahead of it."""

    #: The maps that read x; those that read h alone with it; and the parameters besides.
    reads_x: tuple[str, ...] = ("i", "f", "g", "o")
    reads_h: tuple[str, ...] = ("i", "f", "g", "o")
    others: tuple[str, ...] = ()
    states = 2
    W: Tensor
    U: Tensor
    b: Tensor

    def __init__(self, layer: Recurrent, careful: bool = True) -> None:
        super().__init__()
        self.H, self.careful = layer.hidden_size, careful
        p = layer.cell_parameters()
        self.stacks = {
            "W": [f"W_{gate}" for gate in self.reads_x],
            "U": [f"U_{gate}" for gate in self.reads_h],
            "b": [f"b_{gate}" for gate in self.reads_x if f"b_{gate}" in p],
        } | {name: [name] for name in self.others}
        for name, parts in self.stacks.items():
            stacked = torch.cat([p[part].detach() for part in parts]) if parts else None
            self.register_parameter(name, None if stacked is None else nn.Parameter(stacked))

    def forward(self, x: Tensor) -> Tensor:
        state = (x.new_zeros(x.shape[1], self.H),) * self.states
        outputs = []
        for a in functional.linear(x, self.W, self.b) if self.careful else x:
            state = self.step(a if self.careful else functional.linear(a, self.W, self.b), *state)
            outputs.append(state[0])
        return torch.stack(outputs)

    def step(self, a: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """(W x_t + b, states at t−1) → states at t."""
        raise NotImplementedError

    def gradients(self) -> dict[str, Tensor]:
        """The gradients under the names that they have in the layer."""
        found: dict[str, Tensor] = {}
        for name, parts in self.stacks.items():
            if parts:
                gradient = getattr(self, name).grad
                found |= zip(parts, gradient.chunk(len(parts)), strict=True)
        return found


class LSTMLoop(Loop):
    def step(self, a: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        i, f, g, o = (a + h @ self.U.T).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class LayerNormLoop(Loop):
    others = ("s_i", "s_f", "s_g", "s_o", "s_c", "t_i", "t_f", "t_g", "t_o", "t_c")
    s_i: Tensor
    s_f: Tensor
    s_g: Tensor
    s_o: Tensor
    s_c: Tensor
    t_i: Tensor
    t_f: Tensor
    t_g: Tensor
    t_o: Tensor
    t_c: Tensor

    def step(self, a: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        v_i, v_f, v_g, v_o = (a + h @ self.U.T).chunk(4, -1)
        size = (self.H,)
        i = functional.layer_norm(v_i, size, self.s_i, self.t_i).sigmoid()
        f = functional.layer_norm(v_f, size, self.s_f, self.t_f).sigmoid()
        g = functional.layer_norm(v_g, size, self.s_g, self.t_g).tanh()
        o = functional.layer_norm(v_o, size, self.s_o, self.t_o).sigmoid()
        c = f * c + i * g
        return o * functional.layer_norm(c, size, self.s_c, self.t_c).tanh(), c


class PeepholeLoop(Loop):
    others = ("p_i", "p_f", "p_o")
    p_i: Tensor
    p_f: Tensor
    p_o: Tensor

    def step(self, a: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        i, f, g, o = (a + h @ self.U.T).chunk(4, -1)
        i, f = (i + self.p_i * c).sigmoid(), (f + self.p_f * c).sigmoid()
        c = f * c + i * g.tanh()
        o = (o + self.p_o * c).sigmoid()
        return o * c.tanh(), c


class ThreeStagesLoop(Loop):
    reads_x = ("r", "z", "n")
    reads_h = ("r", "z")
    others = ("U_n", "U_m", "b_m")
    states = 1
    U_n: Tensor
    U_m: Tensor
    b_m: Tensor

    def step(self, a: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        (h,) = state
        a_gates, a_n = a.split((2 * self.H, self.H), -1)
        r, z = (a_gates + h @ self.U.T).sigmoid().chunk(2, -1)
        n = (a_n + (r * h) @ self.U_n.T).tanh()
        m = functional.linear(n, self.U_m, self.b_m).tanh()
        return ((1 - z) * h + z * m,)


#: A title → the cell, its loop in torch, and the built-in cell that it could have been.
USER_CELLS: Mapping[str, tuple[type[Cell], type[Loop], str | None]] = {
    "LSTM, rewritten": (RewrittenLSTM, LSTMLoop, "lstm"),
    "LayerNorm LSTM": (LayerNormLSTM, LayerNormLoop, None),
    "peephole LSTM": (PeepholeLSTM, PeepholeLoop, None),
    "three stages": (ThreeStages, ThreeStagesLoop, None),
}
