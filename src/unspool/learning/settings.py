"""Settings: what a section of a run's config may hold, and the section on training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    model_validator,
)

from unspool.errors import ArgumentError


def _from_anywhere(names: tuple[str, ...]) -> list[str]:
    return [str(Path(name).expanduser().absolute()) for name in names]


def _share_or_files(value: Any, check: Any, info: ValidationInfo) -> Any:
    """One answer in place of two, of what a share and what files would have to be."""
    name = str(info.field_name)
    # without validation data no model is the best
    share = "above 0 and below 1" if name == "validation" else "from 0 to below 1"
    try:
        found = check(value)
    except ValidationError:
        found = ()
    if found == () or (found == 0 and name == "validation"):
        problem = "is neither a share of the data nor files"
        raise ArgumentError.of(name, value, problem, f"Give a number {share}, or a list of files")
    return found


Size = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
#: Names of files; a run keeps them such that they mean the same from wherever it is gone on with.
Files = Annotated[tuple[str, ...], PlainSerializer(_from_anywhere)]
#: A share of the data, or files of their own.
Portion = Annotated[Share | Files, WrapValidator(_share_or_files)]


class Effect(NamedTuple):
    """Settings that something reads only where `other` has one of some values, or, without `among`, any but those."""

    settings: tuple[str, ...]
    other: str  # a setting of any section, or "task"
    values: tuple[Any, ...]
    among: bool = True


class Section(BaseModel):
    """A section of the config: every key is known, every value of its type."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    #: Which settings are not always read. Whoever says one of them in vain hears of it.
    effects: ClassVar[tuple[Effect, ...]] = ()


class Training(Section):
    """How a model is trained."""

    effects = (
        Effect(("momentum",), "optimiser", ("sgd",)),
        Effect(("betas",), "optimiser", ("adamw", "adam")),
        Effect(("final",), "schedule", ("linear", "cosine")),
        Effect(("decay",), "schedule", ("epoch", "plateau")),
        Effect(("decay_after",), "schedule", ("epoch",)),
        Effect(("decay_patience",), "schedule", ("plateau",)),
        Effect(("average_decay",), "average", ("exponential",)),
        Effect(("average_from",), "average", ("tail",)),
        Effect(("forcing_end",), "forcing", ("always", "never"), among=False),
    )

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """of initial weights, dropout and shuffling"""
    epochs: Positive | None = None
    """how often the data is read"""
    steps: Size | None = None
    """how many updates are made; in place of epochs"""
    minutes: Positive | None = None
    """how long it trains; in place of epochs. Schedules follow the clock, so that a slower machine does less"""
    batch: Size = 32
    """rows read side by side"""
    window: Size | Literal["all"] = 64
    """steps that gradients go back; the state goes on. "all": to the beginning"""
    accumulate: Size = 1
    """windows whose gradients make one update"""
    learn: Literal["bptt", "predictive-coding"] = "bptt"
    """how gradients come about: back-propagation through time, or errors that each layer knows itself"""
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    """what makes an update of a gradient"""
    rate: Positive = 3e-3
    """the learning rate"""
    momentum: Share = 0.0
    """of sgd"""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """of adam and adamw"""
    weight_decay: NotNegative = 0.0
    """of matrices, but not of embeddings"""
    schedule: Literal["constant", "linear", "cosine", "epoch", "plateau"] = "linear"
    """how the rate changes"""
    warmup: Count = 0
    """updates over which the rate rises"""
    final: Share = 0.0
    """share of the rate at the end of linear and cosine"""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.5
    """factor of epoch and plateau"""
    decay_after: Count = 4
    """epochs before "epoch" begins to decay"""
    decay_patience: Count = 1
    """evaluations without progress that "plateau" waits for"""
    clip: Positive | None = 1.0
    """largest norm of a gradient; longer ones are shortened"""
    average: Literal["exponential", "tail"] | None = None
    """weights that are evaluated and kept are a mean over training"""
    average_decay: Share = 0.999
    """of the exponential mean"""
    average_from: Share = 0.5
    """share of training after which the tail's mean begins"""
    forcing: Literal["always", "never", "linear", "exponential", "inverse-sigmoid"] = "always"
    """whether a step's input is the truth, or what the model said before; and how that changes"""
    forcing_end: Probability = 0.1
    """share of truth at the end of training"""
    activation_penalty: NotNegative = 0.0
    """times the mean of squared outputs"""
    temporal_penalty: NotNegative = 0.0
    """times the mean of squared changes of outputs"""
    baselines: bool = False
    """models without memory are trained too, in the same way, to compare"""
    patience: Size | None = None
    """evaluations without progress after which training stops"""
    evaluate_every: Size | None = None
    """updates from one evaluation to the next; else ten a run, or once an epoch"""
    evaluate_limit: Size | None = 100_000
    """units of validation data that are read on the way; at the end all of it is"""
    checkpoint_every: Size | None = None
    """updates from one checkpoint to the next, besides those at evaluations; else a minute's worth"""
    keep: Size = 2
    """newest checkpoints that are kept, besides the best"""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        given = [name for name in ("epochs", "steps", "minutes") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"say one of {', '.join(given)}")
        return self
