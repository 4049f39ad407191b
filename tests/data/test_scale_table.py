"""Scales and units of many series: those of a dict, and the same after they were written as columns of numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unspool.data import scale_table
from unspool.data.scale import Scale
from unspool.data.scale_table import ArrayTable, ScaleTable, dump_tables, load_tables
from unspool.errors import DataError


def make(count: int = 3) -> tuple[dict[str, Scale], dict[str, np.ndarray]]:
    chance = np.random.default_rng(0)
    names = [f"s{number}" for number in range(count)]
    scales = {name: Scale(chance.normal(size=2), 1 + chance.random(2)) for name in names}
    return scales, {name: chance.random(1) for name in names}


@pytest.mark.parametrize("many", [2, 3])
def test_a_document_restores_them(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_table, "MANY", many)
    scales, units = make()
    document = json.loads(json.dumps(dump_tables(ScaleTable.of(scales.items()), ArrayTable.of(units.items()))))
    assert ("series_names" in document) == (many < len(scales))
    found, own = load_tables(document, 1)
    assert (list(found), list(own)) == (list(scales), list(units))
    for name, scale in scales.items():
        np.testing.assert_array_equal(found[name].mean, scale.mean)
        np.testing.assert_array_equal(found[name].deviation, scale.deviation)
        np.testing.assert_array_equal(own[name], units[name])
    assert "s0" in found
    assert "other" not in found


@pytest.mark.parametrize("change", ["fewer", "negative", "ragged"])
def test_a_document_that_was_changed_is_refused(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_table, "MANY", 0)
    scales, units = make()
    document = dump_tables(ScaleTable.of(scales.items()), ArrayTable.of(units.items()))
    numbers = document["series_numbers"]
    if change == "fewer":
        document["series_names"].pop()
    elif change == "negative":
        numbers[2][0] = -1.0
    else:
        numbers[0].pop()
    with pytest.raises((DataError, ValueError)):
        load_tables(document, 1)
