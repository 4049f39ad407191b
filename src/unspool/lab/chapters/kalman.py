"""Filter and smoother: what knowing the future gains, in theory and for networks."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import linear_gaussian

T, UNITS = 40, 16
PROCESSES = (
    lab.Process(0.95, 1.0, 0.1, 1.0),
    lab.Process([[0.8, 0.4], [-0.4, 0.8]], [[1.0, 0.2]], [[0.3, 0.1], [0.1, 0.2]], 0.5),
    lab.Process(np.diag([0.9, 0.5, -0.7]), [[1.0, 1.0, 1.0], [0.0, 1.0, -1.0]], np.eye(3), np.diag([0.2, 2.0])),
)
NETWORKS = ("forward", "bidirectional")


def expected(process: lab.Process) -> tuple[list[float], list[float]]:
    """The expected squared errors of filter and smoother at each step; they do not depend on what is read."""
    filtered = lab.filter_states(process, np.zeros((T, 1, len(process.reading))))
    smoothed = lab.smooth_states(process, filtered)
    of_filter, of_smoother = (np.trace(one.covariances, axis1=1, axis2=2) for one in (filtered, smoothed))
    return of_filter.tolist(), of_smoother.tolist()


def train(kind: str, updates: int, seed: int) -> tuple[nn.Module, nn.Module]:
    """A network that learns to predict the state at every step of the first process."""
    torch.manual_seed(seed)
    both = kind == "bidirectional"
    layer = unspool_nn.Stack("gru", 1, UNITS, 1, bidirectional=both)
    head = nn.Linear(layer.output_size, 1)

    def loss(step: int) -> torch.Tensor:
        # the errors of late updates are averaged over more sequences, as a smaller learning rate would do
        x, z = map(torch.as_tensor, linear_gaussian(T, 32 + 224 * step // updates, seed=seed * 1_000_000 + step))
        error: torch.Tensor = (head(layer(x)[0]) - z).square().mean()
        return error

    lab.fit(nn.ModuleList([layer, head]), loss, updates, lr=0.01)
    return layer, head


def compare(updates: int, seed: int) -> dict[str, float]:
    """Mean squared errors of networks and of the optimal estimators on the same new sequences."""
    process = PROCESSES[0]
    states, readings = process.sample(T, 4000, seed * 1_000_000 + 999_999)
    filtered = lab.filter_states(process, readings)
    estimates = {"filter": filtered.means, "smoother": lab.smooth_states(process, filtered).means}
    for kind in NETWORKS:
        layer, head = train(kind, updates, seed)
        with torch.no_grad():
            estimates[kind] = head(layer(torch.as_tensor(readings).float())[0]).double().numpy()
    return {name: float(np.square(estimate - states).mean()) for name, estimate in estimates.items()}


def measure(study: lab.Study) -> lab.Found:
    updates = study.choose(400, 800)
    curves = [expected(process) for process in PROCESSES]
    runs = [compare(updates, seed) for seed in study.seeds()]
    return {
        "filter": [curve[0] for curve in curves],
        "smoother": [curve[1] for curve in curves],
        "errors": {name: [run[name] for run in runs] for name in ("filter", "smoother", *NETWORKS)},
    }


def largest_excess(found: lab.Found) -> float:
    """The largest expected error of the smoother beyond that of the filter, at any step of any process."""
    pairs = zip(found["smoother"], found["filter"], strict=True)
    excess: list[float] = [a - b for less, more in pairs for a, b in zip(less, more, strict=True)]
    return max(excess)


def ratios(found: lab.Found, network: str, optimum: str) -> list[float]:
    """Errors of a network relative to those of the optimum on the same sequences, minus 1."""
    errors = found["errors"]
    return [error / best - 1 for error, best in zip(errors[network], errors[optimum], strict=True)]


def judge(found: lab.Found) -> lab.Verdict:
    forward, both = ratios(found, "forward", "filter"), ratios(found, "bidirectional", "smoother")
    gain = ratios(found, "bidirectional", "filter")
    return lab.all_of(
        lab.at_most("error of the smoother beyond that of the filter", largest_excess(found), 1e-12),
        lab.below("error of the forward network beyond the filter's, relative", forward, 0.1),
        lab.below("error of the bidirectional network beyond the smoother's, relative", both, 0.1),
        lab.below("error of the bidirectional network beyond the filter's, relative", gain),
        lab.at_least("upper end of the interval of the forward network's excess", lab.interval_of(forward).high, 0.0),
        lab.at_least(
            "upper end of the interval of the bidirectional network's excess", lab.interval_of(both).high, 0.0
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    names = ("filter", "forward", "smoother", "bidirectional")
    ends = [lab.interval_of(found["errors"][name]) for name in names]
    mean, low, high = [one.mean for one in ends], [one.low for one in ends], [one.high for one in ends]
    curves = [lab.Series(name, list(range(1, T + 1)), found[name][0]) for name in ("filter", "smoother")]
    rows = list(zip(names, mean, low, high, strict=True))
    return lab.Shown(
        tables=(lab.Table(("estimator", "mean squared error", "low", "high"), rows),),
        figures=(
            lab.Bars(
                "Networks beside the optimal estimators",
                "mean squared error",
                [lab.Series("error on new sequences", names, mean, low, high)],
            ),
            lab.Lines("Expected error at each step", "step", "squared error", curves),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-10",
    equation="z_t = A z_{t−1} + w_t, x_t = C z_t + v_t\nE‖z_t − E(z_t | x_1 … x_T)‖² ≤ E‖z_t − E(z_t | x_1 … x_t)‖²",
    method=(
        "For three linear-Gaussian processes, the expected errors of the Kalman filter and of the RTS smoother follow "
        "from the equations. A forward and a bidirectional GRU learn to predict the state of the first process, and "
        "are compared with filter and smoother on the same new sequences. The claim holds if the smoother's error is "
        "at most the filter's at every step; if each network comes within 10 % of its optimum; if the bidirectional "
        "one is better than any filter; and if no network beats its optimum, as the interval has it."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
