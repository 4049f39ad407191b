"""What follows from the settings of training: batch size, device, optimizer, schedule, teacher forcing, average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.errors import ArgumentError
from unspool.learning.averaging import Average
from unspool.learning.device import choose_device
from unspool.learning.optimizers import make_optimizer, make_sparse
from unspool.learning.schedules import Schedule, make_schedule
from unspool.learning.teacher_forcing import TeacherForcing

if TYPE_CHECKING:
    from unspool.settings.training import Training


def batch_size_of(settings: Training, processes: int) -> int:
    """The part of each batch that one of several processes computes."""
    if settings.batch_size % processes:
        problem = f"does not divide among {processes} processes"
        raise ArgumentError.of("batch_size", settings.batch_size, problem, "Give a multiple")
    return settings.batch_size // processes


def device_of(settings: Training, processes: int) -> torch.device:
    """The device that a process computes on."""
    device = choose_device(settings.device)
    if device.type != "cpu" and processes > 1:
        problem = f"is not for {processes} processes, which exchange gradients on the CPU"
        raise ArgumentError.of("device", settings.device, problem, "Use `device='cpu'`, or leave `nproc` out")
    return device


def optimizer_of(settings: Training, learner: nn.Module, processes: int) -> Optimizer:
    """The optimizer; with plain sgd in one process, large embeddings get sparse gradients, which MPS does not have."""
    plain = settings.optimizer == "sgd" and not (settings.momentum or settings.weight_decay or processes > 1)
    plain = plain and all(parameter.device.type != "mps" for parameter in learner.parameters())
    return make_optimizer(
        settings.optimizer,
        learner,
        lr=settings.lr,
        momentum=settings.momentum,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        sparse=make_sparse(learner, plain=plain),
    )


def schedule_of(settings: Training) -> Schedule:
    """The learning-rate schedule."""
    return make_schedule(
        settings.schedule,
        warmup=settings.warmup,
        min_lr_ratio=settings.min_lr_ratio,
        decay=settings.lr_decay,
        decay_after=settings.lr_decay_after,
        patience=settings.lr_decay_patience,
    )


def teacher_forcing_of(settings: Training) -> TeacherForcing:
    """The schedule of teacher forcing."""
    kind = settings.teacher_forcing
    if kind in ("always", "never"):
        return TeacherForcing(kind)
    return TeacherForcing(kind, end=settings.teacher_forcing_end)


def average_of(settings: Training, parameters: Sequence[Tensor]) -> Average | None:
    """The average of the weights, if one is wanted."""
    return None if settings.average is None else Average(parameters, settings.average, settings.ema_decay)
