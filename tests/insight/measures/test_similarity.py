"""Similarity of representations: textbook formulas, invariances, layers of a recording, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from tests.insight.models import recorded, small_input, small_stack
from tests.runs.tiny_run import TinyRun

from unspool.cells import CATALOGUE
from unspool.errors import ArgumentError, ShapeError
from unspool.insight import compare
from unspool.insight.compare import compare_runs, tell_runs
from unspool.insight.measures.similarity import compare_states, linear_cka, measure_similarity, rsa
from unspool.insight.subjects.run import take_run


def draw(rows: int = 40, width: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width))


def hsic(a: np.ndarray, b: np.ndarray) -> float:
    """tr(K H L H), as the paper of CKA writes it."""
    center = np.eye(len(a)) - 1 / len(a)
    return float(np.trace(a @ a.T @ center @ b @ b.T @ center))


def test_cka_is_that_of_the_textbook() -> None:
    x, y = draw(), draw(width=7, seed=1) + draw()[:, :1]
    expected = hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))
    assert linear_cka(x, y) == pytest.approx(expected, rel=1e-12)
    assert 0.05 < expected < 0.95


def test_rsa_is_the_rank_correlation_of_distances() -> None:
    x, y = draw(), draw(width=3, seed=1) + draw()[:, :1]
    assert rsa(x, y) == pytest.approx(spearmanr(pdist(x), pdist(y)).statistic, rel=1e-9)


@pytest.mark.parametrize("measure", [linear_cka, rsa])
def test_rotation_shift_and_scale_change_nothing(measure) -> None:  # type: ignore[no-untyped-def]
    x, y = draw(), draw(seed=3)
    rotation = np.linalg.qr(draw(5, 5, seed=2))[0]
    assert measure(x, 3 * x @ rotation + 7) == pytest.approx(1.0, abs=1e-9)
    assert measure(y, 3 * x @ rotation + 7) == pytest.approx(measure(y, x), abs=1e-9)
    stretched = x * [1, 1, 1, 1, 50]
    assert measure(x, stretched) < 0.9


@pytest.mark.parametrize("measure", [linear_cka, rsa])
@pytest.mark.parametrize(("scale", "shift"), [(1, 1e8), (1, -1e6), (1e-13, 0), (1e-200, 0), (1e200, 0), (1e-6, 1)])
def test_neither_do_extremes(measure, scale: float, shift: float) -> None:  # type: ignore[no-untyped-def]
    x, y = draw(), draw(seed=3) + draw()
    assert measure(x, scale * x + shift) == pytest.approx(1.0, abs=1e-6)
    assert measure(y, scale * x + shift) == pytest.approx(measure(y, x), abs=1e-6)


def test_what_does_not_vary_cannot_be_compared() -> None:
    flat = np.full((40, 2), 0.1)
    assert np.isnan(linear_cka(draw(), flat))
    assert np.isnan(rsa(draw(), flat))


def test_layers_of_a_recording() -> None:
    cell = CATALOGUE["gru"]()
    recording = recorded(small_stack(cell, 2), small_input(cell))
    found = measure_similarity(recording)
    assert found.first == found.second == ("input", "layer 1", "layer 2")
    live = recording.layers[0].live
    x, one, two = recording.layers[0].x[live], *(layer.output[live] for layer in recording.layers)
    assert found.cka[1, 2] == pytest.approx(linear_cka(one, two))
    assert found.rsa[0, 2] == pytest.approx(rsa(x, two))
    np.testing.assert_allclose(np.diag(found.cka), 1)
    assert found.rows == int(live.sum())
    other = measure_similarity(recording, recorded(small_stack(cell, 1), small_input(cell)))
    assert other.second == ("input", "layer 1")
    assert other.cka[0, 0] == pytest.approx(1)


def test_moments_and_fewer_rows() -> None:
    moments = {"step 1": draw(), "step 2": draw() + 0.1 * draw(seed=1)}
    found = compare_states(moments, rows=10)
    assert found.rows == 10
    assert 0.9 < found.cka[0, 1] < 1


def test_two_runs_over_the_same_data(tiny_run: TinyRun) -> None:
    found = compare_runs(tiny_run.path, tiny_run.path)
    np.testing.assert_allclose(np.diag(found.cka), 1)


def test_runs_that_read_different_data_are_not_compared(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other numbers, other tokens, and tokens beside numbers."""
    specimen = take_run(tiny_run.path)
    cell = CATALOGUE["elman"]()
    plain = replace(specimen, recording=recorded(small_stack(cell), small_input(cell)), tokens=None)
    other = replace(plain, recording=recorded(small_stack(cell), small_input(cell) + 1))
    renamed = replace(specimen, tokens=[["x"] * len(row) for row in specimen.text])
    taken = {"plain": plain, "other": other, "text": specimen, "renamed": renamed}
    monkeypatch.setattr(compare, "take_run", lambda run, _: taken[run])
    assert compare_runs("plain", "plain", rows=5).rows == 5
    assert tell_runs("plain", "plain").figures
    for first, second in (("plain", "other"), ("text", "renamed"), ("text", "plain")):
        with pytest.raises(ArgumentError, match="reads other data"):
            compare_runs(first, second)
        section = tell_runs(first, second)
        assert not section.figures
        assert "different data" in section.findings[0]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: linear_cka(draw(4), draw(5)), ShapeError, "rows of `x`"),
        (lambda: linear_cka(draw(4)[0], draw(4)), ShapeError, "one row per step"),
        (lambda: rsa(draw() * np.nan, draw()), ArgumentError, "NaN"),
        (lambda: compare_states({"a": draw(4), "b": draw(5)}), ShapeError, "same steps"),
        (lambda: compare_states({"a": draw(4)}, rows=1), ArgumentError, "rows"),
    ],
)
def test_bad_input_is_refused(call, error: type[Exception], says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=says):
        call()


def test_other_steps_are_refused() -> None:
    cell = CATALOGUE["elman"]()
    one = recorded(small_stack(cell), small_input(cell))
    other = recorded(small_stack(cell), torch.cat([small_input(cell), small_input(cell)]))
    with pytest.raises(ShapeError, match="same batch"):
        measure_similarity(one, other)
