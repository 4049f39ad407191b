"""What a setting is: a field of a section with type, default, bounds, help, group, and whether resume may change it.

Every setting is declared once, in `data.py`, `model.py` or `training.py` beside this file. The command line's options
and help, the config's checks, the advice of plan and X-ray, the estimators' documentation and the reference's table
are all derived from these declarations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, ValidationInfo, WrapValidator

from unspool.errors import ArgumentError
from unspool.settings.search import Declared

#: Groups of settings, in the order in which help and the reference list them.
Group = Literal["Data", "Model", "Regularization", "Optimization", "Training", "Evaluation"]


def setting(
    default: Any,
    help: str,  # noqa: A002
    group: Group,
    *,
    common: bool = False,
    resume: bool = False,
    search: Declared | None = None,
) -> Any:
    """Declare a setting as a field of a section.

    Args:
        default: The value where none is given; `...` if one must be given.
        help: One line for people: what it is, and what its values mean.
        group: The heading it is listed under.
        common: Whether the short help lists it.
        resume: Whether a run may be resumed with another value.
        search: The values that a search tries; None if there are no usual ones, or all are.

    Example:
        lr: Positive = setting(3e-3, "learning rate", "Optimization", common=True)
    """
    facts: Any = {"group": group, "common": common, "resume": resume, "search": search}
    return Field(default, description=help, json_schema_extra=facts)


def _absolute(names: tuple[str, ...]) -> list[str]:
    return [str(Path(name).expanduser().absolute()) for name in names]


def _fraction_or_files(value: Any, check: Any, info: ValidationInfo) -> Any:
    """One error message in place of two, for the fraction and for the files."""
    name = str(info.field_name)
    # without validation data no model is the best
    fraction = "above 0 and below 1" if name == "validation" else "from 0 to below 1"
    try:
        found = check(value)
    except ValidationError:
        found = ()
    if found == () or (found == 0 and name == "validation"):
        problem = "is neither a fraction of the data nor a list of files"
        raise ArgumentError.of(name, value, problem, f"Give a number {fraction}, or a list of files")
    return found


Size = Annotated[int, Field(ge=1)]
#: Units of a layer, and layers: more than any network has, and few enough that nothing counts for minutes.
Width = Annotated[int, Field(ge=1, le=1 << 20)]
WidthOrNone = Annotated[int, Field(ge=0, le=1 << 20)]
Depth = Annotated[int, Field(ge=1, le=1000)]
#: Steps that are read ahead, and sequences that a search keeps: each costs time and memory.
Delay = Annotated[int, Field(ge=0, le=1000)]
BeamSize = Annotated[int, Field(ge=1, le=1000)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
#: Names of files. A run keeps absolute paths, so that it can be resumed from any folder.
Files = Annotated[tuple[str, ...], PlainSerializer(_absolute)]
#: The name of a file, likewise.
File = Annotated[str, PlainSerializer(lambda name: _absolute((name,))[0])]
#: A fraction of the data, or files of their own.
Portion = Annotated[Fraction | Files, WrapValidator(_fraction_or_files)]


class Effect(NamedTuple):
    """Settings that have an effect only where `other` has one of `values`, or, without `among`, any other value."""

    settings: tuple[str, ...]
    other: str  # a setting of any section, or "task"
    values: tuple[Any, ...]
    among: bool = True


class Section(BaseModel):
    """A section of the config: every key is known, every value has its type."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Which settings do not always have an effect. A user who gives one in vain is told so.
    effects: ClassVar[tuple[Effect, ...]] = ()
