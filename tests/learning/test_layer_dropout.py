"""The best rate against a search for it, measurements against closed forms, and runs that go on with their rates."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.optimize import minimize_scalar
from tests.learning.small_runs import metrics, outcome, write_text

from unspool.errors import ArgumentError
from unspool.learning.layer_dropout import HIGHEST, LayerDropout, best_dropout, measure_activity, measure_rates
from unspool.models.language_model import LanguageModel
from unspool.nn import Stack
from unspool.runs.train import train
from unspool.settings.model import Backbone, LanguageModelSettings
from unspool.tasks import lm as language_model


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


# ── the rate ──


@pytest.mark.parametrize("a", [1e-3, 0.1, 0.5, 1.0, 50.0])
@pytest.mark.parametrize("b", [1e-6, 1e-3, 0.05, 0.3, 1.0, 20.0])
def test_no_rate_is_better(a: float, b: float) -> None:
    def worse(p: float) -> float:
        return -(a * math.log1p(-p) - b / p)

    found = best_dropout(a, b)
    searched = minimize_scalar(worse, bounds=(1e-12, 1 - 1e-12), method="bounded", options={"xatol": 1e-12})
    assert found == pytest.approx(searched.x, rel=1e-4, abs=1e-6)  # a search sees no further than √ε
    for other in (found * (1 - 1e-4), found + (1 - found) * 1e-4):
        assert worse(found) < worse(other)


@pytest.mark.parametrize("a", [1e-6, 0.3, 1e6])
@pytest.mark.parametrize("b", [1e-300, 1e-30, 1e-12, 0.2, 1e12])
def test_the_slope_is_zero_there_however_small_b_is(a: float, b: float) -> None:
    """b/p² = a/(1 − p): in this form nothing is lost to rounding; −b + √(b² + 4ab) would be all rounding."""
    p = best_dropout(a, b)
    assert 0 < p <= 1
    if p < 1 - 1e-9:
        assert b * (1 - p) / (a * p * p) == pytest.approx(1, rel=1e-6)


def test_the_equation_as_it_is_written() -> None:
    for a, b in ((0.3, 0.05), (1.0, 1.0), (0.01, 0.4)):
        assert best_dropout(a, b) == pytest.approx((-b + math.sqrt(b * b + 4 * a * b)) / (2 * a), rel=1e-12)
    assert best_dropout(0.5, 0.0) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (0.0, 0.1, r"`a` \(=0.0\) is not a number above 0"),
        (-1.0, 0.1, "`a`"),
        (0.5, -0.1, r"`b` \(=-0.1\) is not a number from 0 on"),
        (0.5, math.nan, "`b`"),
        (math.inf, 0.5, "`a`"),
        ("much", 0.5, "`a`"),
        (True, 0.5, "`a`"),
    ],
)
def test_what_no_activity_has_is_refused(a: Any, b: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        best_dropout(a, b)


# ── the measurements ──


def test_units_that_say_the_same_carry_one_direction_and_adapt_wholly() -> None:
    one = torch.randn(50, 4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = measure_activity(one * torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64))
    assert found == pytest.approx((1 / 4, 1.0), abs=1e-9)


def test_units_that_vary_alike_and_apart_carry_all_and_adapt_not_at_all() -> None:
    signs = torch.tensor(np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, 8).T)
    assert measure_activity(signs.unsqueeze(1)) == pytest.approx((1.0, 0.0), abs=1e-12)


def test_against_numpy_s_correlations_and_singular_values() -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(40, 2, 5, dtype=torch.float64, generator=generator)
    values = values @ torch.randn(5, 5, dtype=torch.float64, generator=generator) + 3
    lengths = (40, 17)
    live = np.concatenate([values[:end, row].numpy() for row, end in enumerate(lengths)])
    variances = np.linalg.svd(live - live.mean(0), compute_uv=False) ** 2
    shares = variances / variances.sum()
    correlation = np.corrcoef(live.T)
    expected = math.exp(-(shares * np.log(shares)).sum()) / 5, (correlation[~np.eye(5, dtype=bool)] ** 2).mean()
    assert measure_activity(values, lengths) == pytest.approx(expected, rel=1e-10)


def test_a_unit_that_never_changes_correlates_with_none() -> None:
    x = torch.randn(30, 2, 1, dtype=torch.float64)
    found = measure_activity(torch.cat([x, x, torch.ones_like(x)], -1))
    assert found == pytest.approx((1 / 3, 2 / 6), abs=1e-9)


@pytest.mark.parametrize("value", [1.0, math.nan])
def test_where_nothing_changes_or_no_number_is_rates_stay(value: float) -> None:
    drops = LayerDropout(2)
    drops.rates.fill_(0.25)
    assert measure_activity(torch.full((4, 2, 3), value)) is None
    drops.watch([torch.full((4, 2, 3), value)] * 2, None)
    assert drops.rates.tolist() == [0.25, 0.25]


def test_a_rate_leaves_something_to_learn_from() -> None:
    drops = LayerDropout(1)
    drops.watch([torch.randn(50, 4, 1).expand(-1, -1, 64)], None)
    assert best_dropout(1 / 64, 1.0) > 0.9
    assert drops.rates.tolist() == [HIGHEST]


# ── in models ──


def model(**settings: Any) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(7, LanguageModelSettings.model_validate({"hidden": 8, "layers": 2, **settings}))


def test_each_layer_s_output_is_dropped_at_its_own_rate_and_the_input_is_not() -> None:
    made = model(dropout="auto")
    batch = torch.randint(7, (2, 12, 3))
    rates = measure_rates(made, (batch[0], batch[1]), made.initial_state(3))
    assert list(rates) == ["dropout 1", "dropout 2"]
    assert isinstance(made.backbone, Stack)
    sequences, _ = made.backbone.eval()(made.embedding(batch[0]), every_layer=True)
    found = [measure_activity(sequence) for sequence in sequences]
    assert list(rates.values()) == pytest.approx([best_dropout(*one) for one in found if one is not None], rel=1e-6)
    made.train()
    made.encode(batch[0], None)
    assert made.backbone.dropout == [pytest.approx(rates["dropout 1"]), 0.0]
    wide = torch.ones(200, 50, 8)
    assert float((made.drop(wide) == 0).double().mean()) == pytest.approx(rates["dropout 2"], abs=0.02)
    assert torch.equal(made.drop_input(wide), wide)
    assert torch.equal(made.eval().drop(wide), wide)


def test_nothing_is_dropped_before_it_is_measured() -> None:
    batch = torch.randint(7, (2, 12, 3))
    losses = [
        made((batch[0], batch[1]), made.initial_state(3)).loss.item() for made in (model(), model(dropout="auto"))
    ]
    assert losses[0] == losses[1]


def test_measuring_leaves_mode_and_random_numbers_as_they_were() -> None:
    made = model(dropout="auto")
    before = torch.get_rng_state()
    measure_rates(made, tuple(torch.zeros(2, 5, 3, dtype=torch.long)), made.initial_state(3))
    assert made.training
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(part.watching for part in made.modules() if isinstance(part, LayerDropout))


def test_torch_s_layers_have_no_rates_of_their_own() -> None:
    with pytest.raises(
        ValidationError, match="does not support `dropout='auto'`. Leave it out, or use `engine='kernel'`"
    ):
        Backbone.model_validate({"engine": "torch", "dropout": "auto"})
    with pytest.raises(ValidationError, match="'auto'"):
        Backbone.model_validate({"dropout": "automatic"})


# ── runs ──

RUN: dict[str, Any] = {
    **{"hidden": 6, "layers": 2, "dropout": "auto", "batch_size": 4, "bptt": 8, "steps": 6},
    **{"eval_every": 2, "checkpoint_every": 1, "average": "ema"},
}


def test_a_run_that_was_stopped_goes_on_with_its_rates_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(language_model, "SAMPLE", 5)
    text = write_text(tmp_path)
    train(text, out=tmp_path / "whole", **RUN)

    class PowerCutError(Exception):
        pass

    def cut(event: Any) -> None:
        if event.kind == "saved" and event.step == 3:  # between two measurements
            raise PowerCutError

    with pytest.raises(PowerCutError):
        train(text, out=tmp_path / "cut", tell=cut, **RUN)
    train(out=tmp_path / "cut", resume=True)
    whole = outcome(tmp_path / "whole")
    assert outcome(tmp_path / "cut") == whole
    assert "model.layer_dropout.rates" in whole["tensors"]
    told = [event["validation"] for event in metrics(tmp_path / "whole") if event["event"] == "evaluated"]
    assert len(told) == 3
    for figures in told:  # metrics.jsonl and every view have what a task's figures are told by
        assert 0 < figures["dropout 1"] <= HIGHEST
        assert 0 < figures["dropout 2"] <= HIGHEST
    assert told[0]["dropout 1"] != told[2]["dropout 1"]
