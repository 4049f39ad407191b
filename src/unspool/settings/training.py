"""The settings of training: section [training] of a config."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from unspool.settings.search import Around, Choices
from unspool.settings.section import (
    Count,
    Effect,
    Fraction,
    NotNegative,
    Positive,
    Probability,
    Section,
    Size,
    setting,
)

#: Settings of which one says when training ends.
ENDS = ("epochs", "steps", "minutes")


class Training(Section):
    """How a model is trained."""

    effects = (
        Effect(("momentum",), "optimizer", ("sgd",)),
        Effect(("betas",), "optimizer", ("adamw", "adam")),
        Effect(("min_lr_ratio",), "schedule", ("linear", "cosine")),
        Effect(("lr_decay",), "schedule", ("epoch", "plateau")),
        Effect(("lr_decay_after",), "schedule", ("epoch",)),
        Effect(("lr_decay_patience",), "schedule", ("plateau",)),
        Effect(("ema_decay",), "average", ("ema",)),
        Effect(("swa_start",), "average", ("swa",)),
        Effect(("teacher_forcing_end",), "teacher_forcing", ("always", "never"), among=False),
        Effect(("teacher_forcing", "teacher_forcing_end"), "task", ("lm", "seq2seq")),
        Effect(("loss_reduction",), "task", ("lm",)),
        Effect(("baselines",), "task", ("lm", "classify", "multilabel", "regress", "tag", "joint", "forecast")),
    )

    # ── how long ──
    epochs: Positive | None = setting(
        None, "number of passes over the training data", "Training", common=True, resume=True
    )
    steps: Size | None = setting(None, "number of updates, instead of `epochs`", "Training", common=True, resume=True)
    minutes: Positive | None = setting(
        None,
        "training time, instead of `epochs`; the learning-rate schedule follows the clock",
        "Training",
        common=True,
        resume=True,
    )
    patience: Size | None = setting(
        None, "stop after this many evaluations without improvement", "Training", common=True, resume=True
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(
        0, "seed of initial weights, dropout and shuffling", "Training", common=True
    )
    # ── a batch ──
    batch_size: Size = setting(32, "sequences per batch", "Training", common=True, search=Choices((16, 32, 64, 128)))
    bptt: Size | Literal["all"] = setting(
        64,
        "time steps that gradients flow back; the state is carried on. all: to the start of the sequence",
        "Training",
        common=True,
    )
    grad_accum: Size = setting(1, "batches whose gradients are accumulated into one update", "Training")
    loss_reduction: Literal["mean", "sum-over-time"] = setting(
        "mean",
        "loss that `lr` and `clip` act on: mean over tokens; sum-over-time: summed over steps, mean over the batch",
        "Training",
    )
    learning_rule: Literal["bptt", "predictive-coding"] = setting(
        "bptt", "how gradients are computed: through all layers, or from local errors of each layer", "Training"
    )
    teacher_forcing: Literal["always", "never", "linear", "exponential", "inverse-sigmoid"] = setting(
        "always", "whether a step's input is the target or the model's own prediction; and its schedule", "Training"
    )
    teacher_forcing_end: Probability = setting(0.1, "probability of teacher forcing at the end of training", "Training")
    baselines: bool = setting(
        False, "also train models without memory in the same way, for comparison", "Training", common=True
    )
    device: str = setting(
        "cpu", "cpu, cuda, cuda:1, mps, or auto: the fastest there is", "Training", common=True, resume=True
    )
    # ── updates ──
    optimizer: Literal["adamw", "adam", "sgd"] = setting("adamw", "adamw, adam or sgd", "Optimization", common=True)
    lr: Positive = setting(3e-3, "learning rate", "Optimization", common=True, search=Around(0.1, 4.0))
    momentum: Fraction = setting(0.0, "momentum of sgd", "Optimization")
    betas: tuple[Fraction, Fraction] = setting((0.9, 0.99), "betas of adam and adamw", "Optimization")
    weight_decay: NotNegative = setting(
        0.0,
        "weight decay of matrices, embeddings excepted",
        "Optimization",
        search=Choices((0.0, 1e-4, 1e-3, 1e-2, 1e-1)),
    )
    schedule: Literal["constant", "linear", "cosine", "epoch", "plateau"] = setting(
        "linear", "learning-rate schedule: constant, linear, cosine, epoch or plateau", "Optimization", common=True
    )
    warmup: Count = setting(
        0,
        "updates over which the learning rate rises from 0",
        "Optimization",
        common=True,
        search=Choices((0, 100, 500)),
    )
    min_lr_ratio: Fraction = setting(
        0.0, "final learning rate of linear and cosine, as a fraction of `lr`", "Optimization"
    )
    lr_decay: Annotated[float, Field(gt=0, le=1)] = setting(
        0.5, "factor of the schedules epoch and plateau", "Optimization"
    )
    lr_decay_after: Count = setting(4, "epochs before the schedule epoch starts to decay", "Optimization")
    lr_decay_patience: Count = setting(
        1, "evaluations without improvement before the schedule plateau decays", "Optimization"
    )
    clip: NotNegative = setting(
        1.0,
        "largest gradient norm; longer gradients are scaled down. 0: never",
        "Optimization",
        common=True,
        search=Choices((0.25, 1.0, 5.0)),
    )
    average: Literal["ema", "swa"] | None = setting(
        None, "evaluate and keep averaged weights: ema (exponential) or swa (plain mean)", "Optimization", common=True
    )
    ema_decay: Fraction = setting(0.999, "decay of the exponential moving average", "Optimization")
    swa_start: Fraction | Literal["plateau"] = setting(
        0.5,
        "fraction of training after which swa starts; plateau: when validation stops improving (NT-ASGD)",
        "Optimization",
    )
    # ── penalties ──
    activation_penalty: NotNegative = setting(
        0.0, "weight of the mean squared output of the recurrent layers (AR)", "Regularization"
    )
    temporal_penalty: NotNegative = setting(
        0.0, "weight of the mean squared change of the output between steps (TAR)", "Regularization"
    )
    # ── evaluation and checkpoints ──
    eval_every: Size | None = setting(
        None,
        "updates between evaluations; default: ten evaluations per run, or one per epoch with epoch and plateau",
        "Evaluation",
        common=True,
    )
    eval_limit: Size | None = setting(
        100_000, "tokens or examples of validation data read at each evaluation; at the end, all are", "Evaluation"
    )
    checkpoint_every: Size | None = setting(
        None, "updates between checkpoints, besides those at evaluations; default: one per minute", "Evaluation"
    )
    save_total_limit: Size = setting(2, "newest checkpoints to keep, besides the best", "Evaluation")

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        given = [f"`{name}`" for name in ENDS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give only one of {', '.join(given)}")
        return self
