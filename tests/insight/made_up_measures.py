"""Made-up measures for tests of figures: plausible numbers, a layer's label that is markup, and empty ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from unspool.insight.measures.activation import Activations, Activity
from unspool.insight.measures.attenuation import Attenuation, Pair
from unspool.insight.measures.dependence import Dependence
from unspool.insight.measures.fixed_points import FixedPoints, PointSet
from unspool.insight.measures.flow import GradientFlow
from unspool.insight.measures.forgetting import Forgetting
from unspool.insight.measures.frequency import Frequency
from unspool.insight.measures.gates import Gate, Gates
from unspool.insight.measures.inputs import Inputs
from unspool.insight.measures.jacobians import Jacobians
from unspool.insight.measures.lyapunov import Lyapunov
from unspool.insight.measures.participation import Participation
from unspool.insight.measures.sensitivity import Sensitivity
from unspool.insight.measures.shares import WeightShares
from unspool.insight.measures.streams import Streams
from unspool.insight.measures.surprise import Surprise
from unspool.insight.measures.time_constants import Constants, TimeConstants
from unspool.insight.measures.token_states import TokenStates, link
from unspool.insight.measures.truncation import Truncation
from unspool.insight.measures.unit_activity import UnitActivity
from unspool.insight.points import spectrum
from unspool.insight.points.continua import Continuum
from unspool.insight.points.fates import Fates
from unspool.insight.points.plane import Portrait
from unspool.insight.points.recall import estimate_recall

LABELS = ("layer 1", "layer 2", "layer 2 ←")
WORDS = ("the", "cat", "saw", "a", "dog", "near", "house", "and", "ran", "mouse", "sleeps", ".")


def flow(labels: tuple[str, ...] = LABELS, steps: int = 100, lags: int = 60) -> GradientFlow:
    rng = np.random.default_rng(1)
    factors = np.linspace(0.75, 0.99, len(labels))
    norms = factors[:, None] ** np.arange(steps)[::-1] * np.exp(0.2 * rng.normal(size=(len(labels), steps)))
    norms[-1:, -3:] = np.nan
    survival = factors[:, None] ** np.arange(lags, dtype=np.float64)
    fallen = survival < 0.01
    horizon = np.where(fallen.any(1), fallen.argmax(1) - 1, lags - 1)
    return GradientFlow(
        labels=labels,
        norms=norms,
        survival=survival,
        rate=factors,
        horizon=horizon,
        censored=np.asarray(~fallen.any(1)),
    )


def shares(labels: tuple[str, ...] = LABELS, steps: int = 100) -> WeightShares:
    values = np.exp(-np.arange(steps)[::-1] / np.linspace(5, 30, len(labels))[:, None])
    values[:, ::7] *= -0.2
    return WeightShares(labels=labels, shares=values / values.sum(1, keepdims=True), norms=np.abs(values))


def truncation(labels: tuple[str, ...] = LABELS, windows: int = 80) -> Truncation:
    bias = np.linspace(0.8, 0.93, len(labels))[:, None] ** np.arange(1, windows + 1)
    overall = np.sqrt((bias**2).sum(0) / max(1, len(labels)))
    return Truncation(
        labels=labels,
        windows=np.arange(1, windows + 1),
        bias=bias,
        overall=overall,
        recommended=int((overall <= 0.01).argmax()) + 1,
        censored=False,
    )


def streams(labels: tuple[str, ...] = LABELS) -> Streams:
    flows = np.tril(np.random.default_rng(2).random((len(labels), len(labels))), -1)
    return Streams(labels=labels, flows=flows, cross=0.3, paths=1)


def forgetting(labels: tuple[str, ...] = LABELS, steps: int = 75) -> Forgetting:
    factors = np.linspace(0.8, 0.97, len(labels))
    distance = factors[:, None] ** np.arange(steps)
    distance[-1:] = np.nan
    fallen = distance < 0.01
    return Forgetting(
        labels=labels,
        steps=np.arange(steps),
        distance=distance,
        rate=np.where(np.isnan(distance[:, 0]), np.nan, factors),
        horizon=np.where(fallen.any(1), fallen.argmax(1), steps - 1),
        censored=np.asarray(~fallen.any(1)),
    )


def jacobians(labels: tuple[str, ...] = LABELS, steps: int = 100, lags: int = 32) -> Jacobians:
    rng = np.random.default_rng(3)
    singular = np.sort(rng.lognormal(-0.2, 0.5, (len(labels), steps, 5)), -1)
    factors = np.sort(rng.uniform(0.3, 1.02, (len(labels), 1, 5)), -1)
    products = factors ** np.arange(lags)[None, :, None]
    return Jacobians(labels=labels, singular=singular, products=products, radius=np.full(len(labels), 0.9))


def lyapunov(labels: tuple[str, ...] = LABELS, width: int = 32) -> Lyapunov:
    exponents = tuple(np.linspace(0.05 - 0.1 * index, -1.5 - index, width) for index in range(len(labels)))
    largest = np.array([one[0] for one in exponents])
    return Lyapunov(labels, exponents, largest, interval=largest[:, None] + np.array([-0.02, 0.02]))


def fixed_points(
    labels: tuple[str, ...] = LABELS, steps: int = 100, width: int = 16, held: tuple[str, ...] = ("mean input",)
) -> FixedPoints:
    rng = np.random.default_rng(4)
    sets, portraits = [], []
    for label in labels:
        angle = np.linspace(0, 12, steps) + rng.uniform(0, 6, (6, 1))
        radius = np.linspace(2, 0.3, steps)
        paths = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
        paths[0, -20:] = np.nan
        explained = np.array([0.62, 0.21])
        portraits.append(Portrait(label, "", np.eye(2, width), np.zeros(width), explained, paths))
        sets += [_points(label, name, rng, width) for name in held]
    return FixedPoints(sets=tuple(sets), portraits=tuple(portraits))


def _points(label: str, held: str, rng: np.random.Generator, width: int) -> PointSet:
    eigenvalues = rng.normal(size=(5, width)) * 0.5 + 0.4j * rng.normal(size=(5, width))
    path = rng.normal(size=(9, width))
    line = Continuum(path, np.full(9, 1e-18), 1, closed=False, fixed=True, attracting=True, points=40)
    return PointSet(
        points=rng.normal(size=(5, width)),
        residual=np.array([1e-18, 1e-24, 1e-23, 1e-5, 1e-22]),
        eigenvalues=eigenvalues,
        stable=np.array([False, True, False, False, True]),
        slow=np.array([False, False, False, True, False]),
        kind=("continuum", "stable", "saddle", "slow", "stable"),
        time_constants=spectrum.time_constants(eigenvalues, 1.0),
        frequencies=spectrum.frequencies(eigenvalues, 1.0),
        modes=rng.normal(size=(5, min(8, width), width)).astype(np.complex128),
        reached=np.array([40, 9, 7, 1, 8]),
        recall=estimate_recall(np.array([40, 9, 7, 1, 8])),
        continua=(line,),
        far=2,
        fates=Fates(400, 40, 3, 2, 1, 7.0),
        starts=128,
        evaluations=65_000,
        stopped="recall",
        dt=1.0,
        label=label,
        held=held,
        plane=rng.normal(size=(5, 2)),
        curves=(path[:, :2],),
    )


def frequency(labels: tuple[str, ...] = LABELS, points: int = 24) -> Frequency:
    omega = np.geomspace(np.pi / 64, np.pi, points)
    pole = np.linspace(0.5, 0.9, len(labels))
    theory = 0.3 / np.sqrt(1 - 2 * pole[:, None] * np.cos(omega) + pole[:, None] ** 2)
    gains = theory * np.exp(0.03 * np.random.default_rng(5).normal(size=theory.shape))
    phase = -np.cumsum(np.arctan2(pole[:, None] * np.sin(omega), 1 - pole[:, None] * np.cos(omega)), 0)
    return Frequency(
        labels=labels,
        omega=omega,
        gains=gains,
        stack=np.cumprod(gains, 0, dtype=np.float64),
        phase=phase,
        pole=pole,
        theory=theory,
        error=np.full(len(labels), 0.03),
    )


def sensitivity(labels: tuple[str, ...] = LABELS, lags: int = 40) -> Sensitivity:
    kernel = 0.9 ** np.arange(lags, dtype=np.float64)
    removed = 0.5 * (0.6 + 0.1 * np.arange(len(labels))[:, None]) ** np.arange(lags, dtype=np.float64)
    removed[:1, 20:] = 0
    delta = kernel.sum() - removed.sum(1) * np.where(np.arange(len(labels)) == 1, 12, 1)
    return Sensitivity(labels=labels, lags=np.arange(lags), kernel=kernel, removed=removed, delta=delta)


def gates(labels: tuple[str, ...] = LABELS, steps: int = 100, width: int = 48) -> Gates:
    rng = np.random.default_rng(6)
    found = []
    for label in labels:
        for name, role in (("f", "keep"), ("i", "write"), ("o", "gate")):
            base = rng.normal(1, 1.5, width) + np.sin(np.arange(steps) / 9)[:, None]
            values = 1 / (1 + np.exp(-base))
            counts = np.stack([np.histogram(row, 20, (0, 1))[0] / width for row in values])
            quantiles = np.quantile(values, (0, 0.1, 0.5, 0.9, 1), axis=1).T
            edges = np.linspace(0, 1, 21)
            found.append(
                Gate(
                    label,
                    name,
                    role,
                    values.mean(1),
                    quantiles,
                    edges,
                    counts.mean(0),
                    counts,
                    values[:, :64],
                    0.1,
                    0.2,
                )
            )
    return Gates(tuple(found))


def time_constants(labels: tuple[str, ...] = LABELS, width: int = 64) -> TimeConstants:
    sets = []
    for index, label in enumerate(labels):
        tau = np.random.default_rng(index).lognormal(1.5 + index, 0.8, width)
        if index == 1:
            tau[:2], tau[2] = np.inf, np.nan
        sets.append(Constants(label, "f", tau, np.nanquantile(tau, (0, 0.1, 0.5, 0.9, 1), method="nearest")))
    return TimeConstants(1.0, tuple(sets))


def attenuation(labels: tuple[str, ...] = LABELS) -> Attenuation:
    neighbours = pairwise(labels)
    return Attenuation(tuple(Pair(lower, upper, 0.37, 0.21, np.full(8, 0.37)) for lower, upper in neighbours))


def activations(labels: tuple[str, ...] = LABELS) -> Activations:
    values = [Activity(label, "g", "tanh", 0.12, 0.0, np.full(8, 0.12)) for label in labels]
    relu = [Activity(label, "h", "relu", 0.0, 0.55, np.full(8, 0.55)) for label in labels[:1]]
    return Activations((*values, *relu))


def participation(labels: tuple[str, ...] = LABELS, width: int = 48) -> Participation:
    spectra = tuple((0.5 + 0.15 * index) ** np.arange(width, dtype=np.float64) for index in range(len(labels)))
    spectra = tuple(one / one.sum() for one in spectra)
    ratio = np.array([1 / (one**2).sum() for one in spectra])
    return Participation(
        labels, ratio, np.full(len(labels), width), spectra, np.zeros(len(labels)), np.zeros(len(labels))
    )


def inputs(labels: tuple[str, ...] = LABELS, width: int = 12) -> Inputs:
    sizes = tuple(np.geomspace(0.1, 10 + index, width) for index in range(len(labels)))
    largest, norm = np.array([one.max() for one in sizes]), np.array([np.linalg.norm(one) for one in sizes])
    return Inputs(labels, largest, norm, 10 * largest, sizes)


def token_states(types: tuple[str, ...] = WORDS) -> TokenStates:
    points = np.random.default_rng(7).normal(size=(len(types), 2)) + 3.0 * (np.arange(len(types)) % 2)[:, None]
    counts = np.arange(len(types), 0, -1) * 3
    linkage = link(points)
    children = {len(types) + row: (int(one), int(other)) for row, (one, other, *_) in enumerate(linkage)}

    def leaves(node: int) -> list[int]:
        return [node] if node < len(types) else [leaf for child in children[node] for leaf in leaves(child)]

    order = np.array(leaves(2 * len(types) - 2) if len(types) > 1 else range(len(types)))
    return TokenStates(types, counts, points, linkage, order, 0.2, 0.7, (types[0], "a", "b"))


def surprise(tokens: tuple[str, ...] = WORDS * 12, steps: int = 48) -> Surprise:
    nats = np.random.default_rng(8).gamma(1.5, 1.5, len(tokens))
    if len(tokens) > 20:
        nats[17] = np.inf
    finite = nats[np.isfinite(nats)]
    by_position = 2 + 3 * np.exp(-np.arange(steps) / 8)
    return Surprise(tokens, nats, float(finite.mean()), tuple(np.argsort(-nats)[:10].tolist()), by_position)


def unit_activity(tokens: tuple[str, ...] = WORDS * 2, units: int = 12) -> UnitActivity:
    values = np.tanh(np.cumsum(np.random.default_rng(9).normal(size=(len(tokens), units)), 0) / 3)
    return UnitActivity("layer 1", tokens, tuple(range(units)), values)


def dependence(lags: int = 40) -> Dependence:
    values = 0.9 ** np.arange(1, lags + 1, dtype=np.float64)
    places = np.arange(1, lags + 1)
    return Dependence("autocorrelation", places, values, values**2, np.full(lags, 0.02), 18, False, False)
