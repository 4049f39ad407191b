"""Schedules against their formulae written out, and against torch's schedulers."""

from __future__ import annotations

import math

import pytest
import torch
from torch.optim import lr_scheduler

from unspool.errors import ArgumentError, UnknownNameError
from unspool.learning.schedules import SHAPES, Progress, make_schedule


def at(step: int = 0, fraction: float = 0.0, epoch: int = 0, validation: tuple[float, ...] = ()) -> Progress:
    return Progress(step, fraction, epoch, validation)


def test_constant() -> None:
    schedule = make_schedule("constant")
    assert [schedule.factor(at(9, fraction, 9, (1.0, 2.0, 3.0))) for fraction in (0, 0.5, 1)] == [1, 1, 1]


def test_linear() -> None:
    schedule = make_schedule("linear", min_lr_ratio=0.2)
    found = [schedule.factor(at(fraction=fraction)) for fraction in (0, 0.25, 0.5, 1, 1.1)]
    assert found == pytest.approx([1, 0.8, 0.6, 0.2, 0.2], rel=1e-14)
    assert make_schedule("linear").factor(at(fraction=1.0)) == 0


def test_cosine_equals_torch() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.1)
    ours = make_schedule("cosine", min_lr_ratio=0.1)
    for step in range(21):
        assert ours.factor(at(fraction=step / 20)) == pytest.approx(theirs.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        theirs.step()
    assert ours.factor(at(fraction=0.5)) == pytest.approx(0.55, rel=1e-14)


def test_halved_each_epoch_after_the_fourth() -> None:
    schedule = make_schedule("epoch")
    assert [schedule.factor(at(epoch=epoch)) for epoch in range(7)] == [1, 1, 1, 1, 0.5, 0.25, 0.125]
    assert [make_schedule("epoch", decay=0.1, decay_after=0).factor(at(epoch=e)) for e in range(2)] == [0.1, 0.1**2]


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_plateau_equals_torch(patience: int) -> None:
    losses = torch.randn(60, generator=torch.Generator().manual_seed(patience)).tolist()
    losses[7] = math.nan
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience, threshold=0.0, eps=0.0)
    ours = make_schedule("plateau", patience=patience)
    factors = []
    for count, loss in enumerate(losses, 1):
        theirs.step(loss)
        factors.append(ours.factor(at(validation=tuple(losses[:count]))))
        assert factors[-1] == optimizer.param_groups[0]["lr"]
    assert factors[-1] < 0.1  # it did decay, and more than once


def test_plateau_by_hand() -> None:
    schedule = make_schedule("plateau", decay=0.25, patience=1)
    losses = (3.0, 2.0, 2.5, 2.0, 1.9, 1.95, 1.9, 2.0, 2.1)  # equal to the best is no improvement
    found = [schedule.factor(at(validation=losses[:count])) for count in range(len(losses) + 1)]
    assert found == [1, 1, 1, 1, 0.25, 0.25, 0.25, 0.0625, 0.0625, 0.25**3]


@pytest.mark.parametrize("name", SHAPES)
def test_warmup_multiplies(name: str) -> None:
    plain, warm = make_schedule(name), make_schedule(name, warmup=4)
    for step, factor in enumerate([0.25, 0.5, 0.75, 1, 1, 1]):
        progress = at(step, step / 6, step, (1.0,) * step)
        assert warm.factor(progress) == factor * plain.factor(progress)


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'cosine'"):
        make_schedule("cosin")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("warmup", -1),
        ("warmup", 0.5),
        ("min_lr_ratio", -0.1),
        ("min_lr_ratio", math.nan),
        ("decay", 0),
        ("patience", True),
    ],
)
def test_bad_options(option: str, value: float) -> None:
    options: dict[str, float] = {option: value}
    with pytest.raises(ArgumentError, match=f"`{option}`"):
        make_schedule("constant", **options)  # type: ignore[arg-type]
