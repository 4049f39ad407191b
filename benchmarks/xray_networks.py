"""The list of networks for `xray_accuracy.py`: kinds of fault by kinds of architecture, random and trained.

The thresholds of the rules were set with the networks of the part "development" in view. Those of the part "held out"
have other architectures: users' cells, layers of torch.nn, both directions, three layers, other widths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.xray_faults import (
    Plant,
    Setup,
    Task,
    add_up,
    fill,
    identity,
    kill,
    multiply,
    orthogonal,
    random,
    together,
)

DEVELOPMENT, HELD_OUT = "development", "held out"
HEALTHY = "healthy"


@dataclass(frozen=True)
class Planted:
    """One network: what is wrong with it, and the keys of the first verdict that name it."""

    kind: str
    right: tuple[str, ...]
    part: str
    trained: bool
    setup: Setup

    @property
    def name(self) -> str:
        """For people, and for the file that keeps results."""
        how = "trained" if self.trained else "random"
        return f"{self.kind}: {self.setup.describe()}, {how}, seed {self.setup.seed}"


def both(cell: str, layers: int = 1, **options: object) -> Setup:
    """A layer in both directions."""
    return Setup(cell, layers, bidirectional=True, **options)  # type: ignore[arg-type]


PLAIN = {
    DEVELOPMENT: (Setup("elman"), Setup("elman", 2), Setup("elman", hidden=48)),
    HELD_OUT: (Setup("Squashed"), Setup("torch-rnn", 2), both("elman"), Setup("elman", 3, hidden=32)),
}
GATED = {
    DEVELOPMENT: (Setup("lstm"), Setup("gru"), Setup("lstm", 2)),
    HELD_OUT: (Setup("torch-lstm"), Setup("torch-gru", 2), both("lstm"), Setup("Minimal"), Setup("gru", 3, hidden=32)),
}
LSTM = {
    DEVELOPMENT: (Setup("lstm"), Setup("lstm", 2), Setup("lstm", hidden=48)),
    HELD_OUT: (Setup("torch-lstm"), both("lstm"), Setup("lstm", 3, hidden=32), Setup("torch-lstm", 2)),
}
STACKED_LSTM = {
    DEVELOPMENT: (Setup("lstm", 2), Setup("lstm", 2, hidden=40)),
    HELD_OUT: (Setup("torch-lstm", 2), both("lstm", 2), Setup("lstm", 3, hidden=32)),
}
STACKED = {
    DEVELOPMENT: (Setup("elman", 2), Setup("lstm", 2), Setup("gru", 2)),
    HELD_OUT: (Setup("torch-rnn", 2), Setup("lstm", 3, hidden=32), Setup("Minimal", 2), Setup("torch-lstm", 2)),
}
RELU = {
    DEVELOPMENT: (Setup("elman-relu"), Setup("elman-relu", 2)),
    HELD_OUT: (Setup("Rectified"), both("elman-relu"), Setup("elman-relu", 3, hidden=32)),
}
ANY = {part: (*PLAIN[part][:2], *GATED[part][:3]) for part in (DEVELOPMENT, HELD_OUT)}

SHORT, LONG = Task(lag=2), Task(lag=40, steps=72)


def lower(setup: Setup) -> slice:
    """The lowest layer, in all directions."""
    return slice(0, 1 + setup.bidirectional)


def upper(setup: Setup) -> slice:
    """All layers but the lowest."""
    return slice(1 + setup.bidirectional, None)


def open_up(setup: Setup) -> Plant:
    """Weights with which the network keeps its state well: what is wrong is then only what is planted after it."""
    if "rnn" in setup.cell or setup.cell in ("elman", "Squashed"):
        return orthogonal()
    return fill(b_f=2.5, b_z=2.5 if setup.cell == "torch-gru" else -2.5)


def with_plant(*plants: Callable[[Setup], Plant], task: Task = SHORT) -> Callable[[Setup], Setup]:
    """Opened up, then ill."""
    return lambda setup: replace(setup, task=task, plant=together(open_up(setup), *(plant(setup) for plant in plants)))


def forgets(setup: Setup) -> Plant:
    """The lowest layer without memory."""
    layers = lower(setup)
    return together(multiply(layers, U=0.02), fill(layers, b_f=-4.0, b_z=-4.0 if setup.cell == "torch-gru" else 4.0))


def too_short(setup: Setup) -> Plant:
    """A memory of some fifteen steps."""
    if "rnn" in setup.cell or setup.cell in ("elman", "Squashed"):
        return orthogonal(0.75)
    return fill(b_f=0.9, b_z=0.9 if setup.cell == "torch-gru" else -0.9)


def fades(setup: Setup) -> Plant:
    """A memory of a few steps."""
    if "rnn" in setup.cell or setup.cell in ("elman", "Squashed"):
        return orthogonal(0.35)
    return together(multiply(U=0.3), fill(b_f=-0.7, b_z=-0.7 if setup.cell == "torch-gru" else 0.7))


def stuck(value: float) -> Callable[[Setup], Plant]:
    """A gate that never moves: in turn the one that keeps, the one that lets in, the one that lets out."""

    def plant(setup: Setup) -> Plant:
        if "lstm" not in setup.cell:
            return fill(b_z=value)
        gate = ("b_i", "b_o", "b_f")[(setup.seed + setup.layers) % 3]
        return fill(slice(None), **{gate: value})

    return plant


#: Kind of fault → keys of right first verdicts, architectures, and how the fault is planted.
Kind = tuple[tuple[str, ...], dict[str, tuple[Setup, ...]], Callable[[Setup], Setup]]
FAULTS: dict[str, Kind] = {
    "inputs too large": (
        ("scaled",),
        ANY,
        lambda setup: replace(with_plant()(setup), sizes=(100.0, 40.0, 70.0), offset=20.0 * setup.seed),
    ),
    "inputs too small": (("scaled",), ANY, lambda setup: replace(with_plant()(setup), sizes=(1e-3, 2e-3, 1e-3))),
    "features unlike each other": (
        ("scaled",),
        ANY,
        lambda setup: replace(with_plant()(setup), sizes=(1e-3, 1.0, 4.0)),
    ),
    "dead units": (("dead",), RELU, with_plant(lambda _: identity(0.9), lambda setup: kill(0.5, lower(setup)))),
    "chaos": (("chaotic",), PLAIN, with_plant(lambda setup: random(3.0 + setup.seed, 0.1))),
    "exploding gradients": (
        ("exploding",),
        RELU,
        with_plant(lambda _: identity(1.15), lambda setup: fill(lower(setup), b_h=0.05)),
    ),
    "saturated units": (("saturated",), PLAIN, with_plant(lambda _: multiply(W=60.0))),
    "saturated cell": (("saturated",), LSTM, with_plant(lambda _: add_up(4.5))),
    "gate stuck shut": (("stuck",), GATED, with_plant(stuck(-12.0))),
    "gate stuck open": (("stuck",), GATED, with_plant(stuck(12.0))),
    "frozen state": (("frozen",), PLAIN, with_plant(lambda _: orthogonal(0.9), lambda _: multiply(W=1e-6))),
    "vanishing gradients": (
        ("vanishing", "memory"),
        ANY,
        lambda setup: replace(setup, task=Task(lag=20), plant=fades(setup)),
    ),
    "memory too short for the loss": (
        ("memory", "vanishing"),
        ANY,
        lambda setup: replace(setup, task=LONG, plant=too_short(setup)),
    ),
    "a layer that forgets": (("forgetful",), STACKED, with_plant(forgets)),
    "truncated training": (
        ("truncated",),
        {part: tuple(one for one in GATED[part] if not one.bidirectional) for part in GATED},
        lambda setup: replace(with_plant(task=Task(lag=12))(setup), bptt=4),
    ),
    "gates closed on both sides": (
        ("shut",),
        STACKED_LSTM,
        with_plant(lambda setup: fill(lower(setup), b_o=-2.5), lambda setup: fill(upper(setup), b_i=-2.5)),
    ),
}

#: Networks that have nothing: they keep their state, and the loss needs less than they remember.
SOUND: dict[str, tuple[Setup, ...]] = {
    DEVELOPMENT: (*PLAIN[DEVELOPMENT], *GATED[DEVELOPMENT], Setup("leaky")),
    HELD_OUT: (*PLAIN[HELD_OUT], *GATED[HELD_OUT], Setup("lstm-open"), Setup("gru-reset-after", 2)),
}


def all_networks(seeds: Sequence[int] = (0, 1)) -> Iterator[Planted]:
    """All networks; of each kind and architecture one that is random and one that is trained, for every seed pair."""
    for part in (DEVELOPMENT, HELD_OUT):
        for kind, (right, architectures, plant) in FAULTS.items():
            for setup in architectures[part]:
                for seed in seeds:
                    yield Planted(kind, right, part, bool(seed % 2), plant(replace(setup, seed=seed)))
        for setup in SOUND[part]:
            for seed in (*seeds, *(seed + 2 for seed in seeds)):
                yield Planted(HEALTHY, (HEALTHY, "short"), part, bool(seed % 2), sound(replace(setup, seed=seed)))


def sound(setup: Setup) -> Setup:
    """A healthy network; every second trained one starts as torch.nn does, enough for a loss that needs little."""
    if setup.seed % 4 == 3:
        return replace(setup, task=SHORT)
    if setup.cell in ("leaky", "lstm-open", "gru-reset-after"):
        value = 2.5
        return replace(setup, task=SHORT, forget_bias=None if setup.cell == "leaky" else value)
    return with_plant()(setup)
