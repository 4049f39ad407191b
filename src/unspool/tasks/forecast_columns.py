"""The columns of a table of series: which hold times, series and targets, and whether a table is one of series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unspool.data.columns import LABEL_NAMES, SERIES_NAMES, TIME_NAMES, find_column, guess_column
from unspool.data.glance import Glance
from unspool.data.roles import Roles, SeriesColumns
from unspool.data.series import Series, read_series
from unspool.data.tables import Table, read_table, require_columns
from unspool.data.text import Source
from unspool.data.wide import VALUE, find_wide, unfold
from unspool.errors import DataError
from unspool.tasks.contract import Claim
from unspool.tasks.plain_settings import with_changes

if TYPE_CHECKING:
    from unspool.settings.data import SeriesData

#: Names of columns of labels: a table that has one is not taken for one of series.
LABELS = ("label", "labels", "class", "category", "intent", "sentiment", "tag")


def read_series_table(source: Source, data: SeriesData) -> tuple[Table, SeriesData]:
    """A table of series in long form, and settings with columns that it has.

    Args:
        source: Files, folders and patterns. A wide table, whose rows are series, is turned into long form.
        data: The settings. A wide table is read as it is where its time column is named.
    """
    table = read_table(source)
    if data.time_column in table.columns:
        return table, data
    wide = find_wide(Roles(table))
    if wide is None or {*data.target} & {*table.columns}:
        return table, data
    own = {"time_column": wide.time, "series_column": wide.series, "target": (VALUE,)}
    return unfold(table, wide), with_changes(data, own)


def claim_wide(glance: Glance) -> Claim | None:
    """The claim to a table whose rows are series; features of examples that are numbered have other columns, too."""
    wide = find_wide(glance.roles)
    roles = glance.roles
    if wide is None or wide.name is None or find_column(glance.columns, (*LABELS, *LABEL_NAMES)) is not None:
        return None
    if any(roles.kinds[one] == "number" and not roles.is_identity(one) for one in wide.others):
        return None
    steps = f"`{wide.steps[0]}` to `{wide.steps[-1]}` are its steps"
    settings = {"time_column": wide.time, "series_column": wide.series, "target": (VALUE,)}
    return Claim(30, f"each row of {glance.name} is a series: `{wide.name}` names it, and {steps}", settings)


def name_columns(table: Table, data: SeriesData) -> SeriesData:
    """The settings with the columns of time and targets named, by a guess where they are not."""
    columns = (data.series_column, *data.target, *data.future_covariates, *data.past_covariates)
    others = [name for name in columns if name]
    require_columns(table.columns, [name for name in (data.time_column, *others) if name], table.files[0])
    _refuse_single_column(table)
    covariates = (*data.future_covariates, *data.past_covariates)
    found = Roles(table).find_series(data.time_column, data.series_column, data.target, covariates)
    if found is not None:
        update = {"time_column": found.time, "series_column": found.series, "target": found.targets}
        return with_changes(data, update)
    time = data.time_column or guess_column(table, TIME_NAMES, "the times", "time_column", others)
    targets = data.target or (guess_column(table, SERIES_NAMES, "the values to forecast", "target", [time, *others]),)
    return with_changes(data, {"time_column": time, "target": targets})


def _refuse_single_column(table: Table) -> None:
    if len(table.columns) == 1:
        raise DataError(
            f"{table.files[0]} has one column only, {table.columns[0]!r}, and a series is times and values. Add a "
            "column of times, such as 2024-01, 2024-02, … or 1, 2, …"
        )


def has_labels(glance: Glance, found: SeriesColumns) -> bool:
    """Whether a table with times has texts or labels, so that its numbers need not be series."""
    roles = glance.roles
    texts = [one for one in found.ignored if roles.kinds[one] == "text" and not roles.is_identity(one)]
    label = find_column(glance.columns, LABELS)
    return bool(texts) or (label is not None and label != found.series and not glance.is_measured(label))


def explain_columns(glance: Glance, found: SeriesColumns) -> str:
    """Why a table is one of series, and which columns are left out."""
    kind = "holds times" if glance.roles.kinds[found.time] == "time" else "counts time"
    several = len(found.targets) > 1
    what = f"`{found.targets[0]}` to `{found.targets[-1]}` are" if several else f"`{found.targets[0]}` is"
    of_each = f" for each `{found.series}`" if found.series else ""
    choice = "; `target` chooses" if several else ""
    rest = _explain_unused(glance, found)
    return f"`{found.time}` of {glance.name} {kind}, and {what} forecast{of_each}{rest}{choice}"


def name_settings(found: SeriesColumns) -> dict[str, Any]:
    """The settings that name the columns of series."""
    settings = {"time_column": found.time, "target": found.targets}
    return settings if found.series is None else {**settings, "series_column": found.series}


def _explain_unused(glance: Glance, found: SeriesColumns) -> str:
    """Which columns of numbers are left out, and how to use them."""
    unused = [one for one in found.ignored if one in glance.roles.measured()]
    coded = [one for one in unused if glance.roles.is_indicator(one)]
    listed = ", ".join(f"`{one}`" for one in unused[:4]) + ", …" * (len(unused) > 4)
    if not unused:
        return ""
    why = f"few values in `{coded[0]}`; to forecast all of them, name each in `target`; " if coded else ""
    return f", without {listed} ({why}see `past_covariates`)"


def read_named(table: Table, data: SeriesData) -> list[Series]:
    """The series of a table, by named columns."""
    assert data.time_column is not None
    covariates = {"future_covariates": data.future_covariates, "past_covariates": data.past_covariates}
    return read_series(table, time=data.time_column, targets=data.target, series=data.series_column, **covariates)
