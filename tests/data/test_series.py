"""Series from tables: groups, futures and scaling; what is missing or out of order is named by its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from statsmodels.datasets import sunspots

from unspool.data.series import Series, find_scale, fit_scales, read_series, standardize
from unspool.data.tables import Table, read_table
from unspool.data.times import TimeAxis
from unspool.errors import ArgumentError, DataError, ShapeError, UnknownNameError


def table_of(folder: Path, text: str) -> Table:
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return read_table(folder / "t.csv")


def series_of(values: object, unknown: object = None, known: object = None, name: str = "a") -> Series:
    array = np.asarray(values, np.float64)
    steps = len(array)
    ahead = np.empty((steps, 0)) if known is None else np.asarray(known, np.float64)
    other = np.empty((steps, 0)) if unknown is None else np.asarray(unknown, np.float64)
    return Series(name, TimeAxis("number", "fixed", 1), np.arange(max(steps, len(ahead))), array, ahead, other)


class TestReading:
    def test_sunspots(self) -> None:
        table = read_table(Path(sunspots.__file__).parent / "sunspots.csv")
        (found,) = read_series(table, time="YEAR", targets=["SUNACTIVITY"])
        expected = sunspots.load_pandas().data
        np.testing.assert_array_equal(found.values[:, 0], expected["SUNACTIVITY"])
        np.testing.assert_array_equal(found.moments, expected["YEAR"])
        assert (found.name, str(found.axis), found.stamps(308, 3)) == (
            "SUNACTIVITY",
            "1 year",
            ["2008", "2009", "2010"],
        )

    def test_mixed_series_with_a_future(self, tmp_path: Path) -> None:
        rows = ["b,2024-01-31,1,10,.1", "a,2023-11-30,5,50,.5", "b,2024-02-29,2,20,.2", "a,2023-12-31,6,60,.6"]
        table = table_of(tmp_path, "\n".join(["id,month,y,price,rain", *rows, "b,2024-03-31,,30,"]))
        b, a = read_series(
            table, time="month", targets=["y"], series="id", future_covariates=["price"], past_covariates=["rain"]
        )
        assert (b.name, a.name, len(b), len(a)) == ("b", "a", 2, 2)
        assert (b.values.tolist(), a.values.tolist()) == ([[1], [2]], [[5], [6]])
        assert (b.future_covariates.tolist(), a.future_covariates.tolist()) == ([[10], [20], [30]], [[50], [60]])
        assert (b.past_covariates.tolist(), a.past_covariates.tolist()) == ([[0.1], [0.2]], [[0.5], [0.6]])
        assert b.seen(0, 2).tolist() == [[1, 0.1, 10], [2, 0.2, 20]]
        assert b.stamps(2, 2) == ["2024-03-31", "2024-04-30"]
        assert a.stamps(1, 4) == ["2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"]

    def test_several_targets(self, tmp_path: Path) -> None:
        (found,) = read_series(table_of(tmp_path, "t,y,z\n0,1,2\n1,3,4\n"), time="t", targets=["z", "y"])
        assert (found.name, found.values.tolist()) == ("z, y", [[2, 1], [4, 3]])

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ("a,1,1,1\na,3,1,1\na,2,1,1", "line 4: 2 comes after 3. Sort"),
            ("a,1,1,1\na,2,1,1\na,2,1,1", "line 4: 2 is there twice"),
            ("a,1,1,1\na,2,1,1\na,3,1,1\na,5,1,1", "line 5: 5 is 2 steps after 3, where a step is 1. Fill in"),
            ("a,1,1,1\na,2,1,1\na,3,1,1\na,3.5,1,1", "line 5: 3.5 is 0.5 steps after 3.0"),
            ("a,1,1,1\na,2,1,1\na,3,1,1\nb,1,1,1\nb,3,1,1", "line 6: 3 is 2 steps after 1"),
            ("a,1,1,1\na,2,,1\na,3,1,1", "line 3: `y` has no number within"),
            ("a,1,1,1\na,2,1,\na,3,1,1", "line 3: `p` has no number within"),
            ("a,1,1,1\na,2,1,1\na,3,,", "line 4: `p` has no number within"),
            ("a,1,1,1\na,2,1,1\nb,1,,1\nb,2,,1", "line 4: the series 'b' has no target"),
            ("a,1,1,1\na,2,x,1", "line 3: `y` is 'x'"),
            ("a,1,1,1\n ,2,1,1", "line 3: `id` is empty"),
            ("a,1,1,1", "1 stamp"),
        ],
    )
    def test_refused(self, tmp_path: Path, rows: str, message: str) -> None:
        table = table_of(tmp_path, f"id,t,y,p\n{rows}\n")
        with pytest.raises(DataError, match=message):
            read_series(table, time="t", targets=["y"], series="id", future_covariates=["p"])

    def test_roles(self, tmp_path: Path) -> None:
        table = table_of(tmp_path, "t,y\n0,1\n1,3\n")
        with pytest.raises(ArgumentError, match="'y' has two roles"):
            read_series(table, time="t", targets=["y"], future_covariates=["y"])
        with pytest.raises(ArgumentError, match="`target`"):
            read_series(table, time="t", targets=[])
        with pytest.raises(DataError, match="no column 'z'"):
            read_series(table, time="t", targets=["z"])


class TestScales:
    def test_as_scikit_learn_scales(self) -> None:
        random = np.random.default_rng(0)
        values, rain = random.normal(5, 3, (20, 2)), random.normal(size=(20, 1))
        price = random.normal(1e6, 0.1, (23, 1))
        series = series_of(values, rain, price)
        scales = fit_scales([series], [15])
        found = standardize(series, scales)
        for array, plain in ((found.values, values), (found.past_covariates, rain), (found.future_covariates, price)):
            np.testing.assert_allclose(array, StandardScaler().fit(plain[:15]).transform(plain), rtol=1e-7, atol=1e-9)
        scale = find_scale(scales, "a")
        np.testing.assert_allclose(scale.undo(found.values), values, rtol=1e-14)
        np.testing.assert_allclose(scale.undo(found.values[None, :, :1]), values[None, :, :1], rtol=1e-14)

    def test_the_rest_is_not_seen(self) -> None:
        short, long = series_of([[1.0], [3.0]]), series_of([[1.0], [3.0], [1e9]])
        dumps = [fit_scales([one], [2])["a"].dump() for one in (short, long)]
        assert dumps == [{"mean": [2.0], "deviation": [1.0]}] * 2

    @pytest.mark.parametrize("level", [0.0, 0.1, 1e300, 5e-324])
    def test_constants_are_shifted_only(self, level: float) -> None:
        series = series_of(np.full((7, 1), level))
        scales = fit_scales([series], [7])
        assert scales["a"].deviation.tolist() == [1.0]
        np.testing.assert_allclose(standardize(series, scales).values, 0, atol=1e-15 * max(level, 1))

    def test_each_series_has_its_own(self) -> None:
        both = [series_of([[0.1], [0.4]], name="a"), series_of([[7.0], [7.5]], name="b")]
        scales = fit_scales(both, [2, 2])
        for one, low in zip(both, (0.1, 7.0), strict=True):
            np.testing.assert_allclose(standardize(one, scales).values, [[-1], [1]], rtol=1e-14)
            np.testing.assert_allclose(scales[one.name].undo([-1.0]), [low], rtol=1e-14)

    def test_refused(self) -> None:
        series = series_of([[1.0], [2.0]])
        scales = fit_scales([series], [2])
        with pytest.raises(ArgumentError, match="`ends` .=3."):
            fit_scales([series], [3])
        with pytest.raises(UnknownNameError, match="'b'"):
            find_scale(scales, "b")
        with pytest.raises(UnknownNameError, match="'b'"):
            standardize(series_of([[1.0]], name="b"), scales)
        with pytest.raises(ShapeError, match="2 columns"):
            standardize(series_of([[1.0, 2.0]]), scales)
        with pytest.raises(DataError, match=r"the series 'a': numbers such as 1e\+308 are too large"):
            fit_scales([series_of([[1e308], [-1e308]])], [2])


def test_all_numbers_that_are_missing_or_too_large_are_told_at_once(tmp_path: Path) -> None:
    rows = [f"{step},{'nan' if step % 7 == 0 else '1e300' if step == 50 else step}" for step in range(100)]
    table = table_of(tmp_path, "t,y\n" + "\n".join(rows) + "\n")
    with pytest.raises(DataError) as caught:
        read_series(table, time="t", targets=["y"])
    said = str(caught.value)
    assert said.startswith("16 problems:")
    assert "line 2: `y` has no number within its series" in said
    assert "line 9: `y` has no number within its series" in said
    assert said.endswith("… and 6 more.")
    rows[::7] = [f"{step},0" for step in range(0, 100, 7)]
    table = table_of(tmp_path, "t,y\n" + "\n".join(rows) + "\n")
    with pytest.raises(DataError, match=r"line 52: `y` is 1e\+300, beyond 1e\+150\. Give it in a larger unit\.$"):
        read_series(table, time="t", targets=["y"])
