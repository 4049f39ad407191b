"""Measure: the record that describes one measure of the X-ray, from its numbers to its place in the report.

A new measure is one such record, listed in `catalogue.py`; nothing else names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import BETWEEN, Scalar
from unspool.insight.specimen import Specimen

Numbers = TypeVar("Numbers")


def always(subject: object) -> bool:  # noqa: ARG001 - the signature of `applies` and `shows`
    """Of a measure that every model has, and that always has something to show."""
    return True


@dataclass(frozen=True)
class Measure(Generic[Numbers]):
    """One measure of the X-ray.

    Attributes:
        key: its name in the report's numbers, sections and links.
        measure: computes the numbers, a frozen dataclass of its own type. An error of ours means that the model has no
            such numbers; the report then says why.
        tell: the section that shows the numbers. It draws no figure: the section's `draw` does, when a page is
            rendered.
        shows: whether there is anything among the numbers to show; if not, they have no section.
        applies: whether the measure makes sense for a model at all; if not, the report does not mention it.
        scalars: the single numbers among its fields that people look for.
        weight: about how many times as long as `flow` it takes.
        timeline: quick enough to be `measured` during training, and also `shown` over it.

    Example:
        >>> Measure(
        ...     key="loss",
        ...     measure=lambda specimen: Loss(float(specimen.recording.loss)),
        ...     tell=lambda found: Section("loss", "Loss", "How good is the model?", f"The loss is {found.value:.3g}."),
        ...     scalars=(Scalar("value", "loss (nats)", rank=20),),
        ... )  # doctest: +SKIP
    """

    key: str
    measure: Callable[[Specimen], Numbers]
    tell: Callable[[Numbers], Section]
    shows: Callable[[Numbers], bool] = always
    applies: Callable[[Specimen], bool] = always
    scalars: tuple[Scalar, ...] = ()
    weight: float = 1.0
    timeline: Literal["measured", "shown"] | None = None

    @property
    def title(self) -> str:
        """The key for people."""
        return self.key.replace("_", " ")

    def named_scalars(self) -> tuple[Scalar, ...]:
        """The scalars by their names in a report, such as `flow · horizon`."""
        return tuple(
            replace(scalar, name=f"{self.title}{BETWEEN}{scalar.name.replace('_', ' ')}") for scalar in self.scalars
        )
