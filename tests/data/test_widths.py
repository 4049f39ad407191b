"""Sequences of numbers that are not finite are refused all at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.calling import call


@pytest.mark.parametrize("form", ["npz", "ts"])
def test_all_numbers_that_are_not_finite_are_told_at_once(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(40, 7))
    x[::2, 3] = np.nan
    labels = np.arange(40) % 2
    file = tmp_path / f"x.{form}"
    if form == "npz":
        np.savez(file, X=x, y=labels)
    else:
        rows = (",".join(map(str, row)) + f":{'ab'[label]}" for row, label in zip(x, labels, strict=True))
        file.write_text("@univariate true\n@classLabel true a b\n@data\n" + "\n".join(rows) + "\n")
    assert call("train", file, "--steps", 3, "--hidden", 4, "--out", tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert "problems:" in said
    assert said.count("step 3, feature 0 is nan. Fill it in.") == 10
    assert "more. It was taken for" in said
