"""Figures of theory show the numbers that they are given."""

from __future__ import annotations

import numpy as np
from tests.insight.pictures import near

from unspool.lab.theory.cost import Cost, fit_costs
from unspool.lab.theory.depth import Depth
from unspool.lab.theory.figures import draw_cost, draw_depth, draw_smoothing
from unspool.lab.theory.smoothing import Smoothing


def made_up_cost() -> Cost:
    steps = np.array([32, 64, 128, 256, 512])
    rnn, attention = 1e-3 + 2e-4 * steps, 1e-3 + 5e-5 * steps + 1e-6 * steps**2
    time, memory = fit_costs(steps, rnn, attention), fit_costs(steps, 1e4 * rnn, 1e5 * attention)
    return Cost(steps, rnn, attention, 1e4 * rnn, 1e5 * attention, time, memory, time.crossing)


def made_up_depth() -> Depth:
    return Depth(effective=3, optimum=2.4, gain=1.0, kept=0.9, lowest=0.0, highest=1.0)


def made_up_smoothing() -> Smoothing:
    by_step = np.full(20, 0.5)
    return Smoothing(0.5, 0.3, 0.52, 0.31, 0.55, 0.36, 1.4, by_step, by_step - 0.2)


def test_pictures_beside_theory() -> None:
    cost = made_up_cost()
    data = draw_cost(cost).data
    near(data[0].y, cost.rnn_seconds)
    near(data[2].y, cost.attention_seconds)
    near(data[3].y, cost.time.at(cost.steps.tolist())[1])
    near(data[4].y, cost.rnn_bytes)
    depth = made_up_depth()
    curve = draw_depth(depth).data[0]
    near(curve.y, depth.accuracy(curve.x))
    smoothing = made_up_smoothing()
    near(draw_smoothing(smoothing).data[0].x, [1.4, 0.55, 0.52, 0.36, 0.31])
