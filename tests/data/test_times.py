"""Time stamps: what is read, the axis that is inferred, and the stamps that come next, as pandas has them."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.data.times import NUMBER, YEAR, TimeAxis, Times, read_times
from unspool.errors import DataError

pd = pytest.importorskip("pandas")  # comes with statsmodels


def read(*entries: str) -> Times:
    return read_times(entries, lambda row: f"row {row}")


def axis_of(*entries: str) -> TimeAxis:
    return TimeAxis.infer(read(*entries))


class TestReading:
    @pytest.mark.parametrize(
        ("entries", "form"),
        [
            (("1958-03-29", "1958-04-05"), "%Y-%m-%d"),
            (("19580329", "19580405"), "%Y%m%d"),
            (("2024-01", "2024-02"), "%Y-%m"),
            (("2024-01-31T18:30", "2024-01-31T18:45"), "%Y-%m-%dT%H:%M"),
            (("2024-01-31 18:30:05", "2024-01-31 18:30:06"), "%Y-%m-%d %H:%M:%S"),
            (("2024-01-31T18:30:05.250000Z", "2024-01-31T18:30:06.000000Z"), "%Y-%m-%dT%H:%M:%S.%fZ"),
        ],
    )
    def test_the_calendar_as_pandas_reads_it_and_back(self, entries: tuple[str, ...], form: str) -> None:
        times = read(*entries)
        expected = [pd.Timestamp(entry).tz_localize(None).value // 1000 for entry in entries]
        assert times.form == form
        assert times.moments.tolist() == expected
        assert [times.spell(row) for row in range(len(entries))] == list(entries)

    def test_zones_become_one(self) -> None:
        times = read("2024-03-31T01:30:00+01:00", "2024-03-31T03:30:00+02:00")
        assert np.diff(times.moments).tolist() == [3_600_000_000]
        assert times.spell(0) == "2024-03-31T00:30:00Z"

    def test_dates_among_date_times(self) -> None:
        times = read("2024-01-31", "2024-01-31 12:00")
        assert [times.spell(row) for row in (0, 1)] == ["2024-01-31 00:00", "2024-01-31 12:00"]

    @pytest.mark.parametrize(
        ("entries", "form", "kind"),
        [
            (("1700", "1701"), YEAR, np.int64),
            (("0", "1", "2000"), NUMBER, np.int64),
            (("-3", "1700000000123456789"[:18]), NUMBER, np.int64),
            (("19580329", "19589999"), NUMBER, np.int64),
            (("0.5", "1e3"), NUMBER, np.float64),
        ],
    )
    def test_numbers(self, entries: tuple[str, ...], form: str, kind: type) -> None:
        times = read(*entries)
        assert times.form == form
        assert times.moments.dtype == np.dtype(kind)
        assert times.moments.tolist() == [float(entry) if kind is np.float64 else int(entry) for entry in entries]

    @pytest.mark.parametrize(
        "entries",
        [
            ("2024-01-31", "2024-02-30"),
            ("2024-01", "2024-02-01"),
            ("2024-01", "2024-13"),
            ("2024-01-31T18:30", "2024-01-31T18:30Z"),
            ("1", "x"),
            ("1", "nan"),
            ("1", "inf"),
            ("0.5", "1e300"),
            ("0001-01-02", "0001-01-01T00:00+14:00"),
        ],
    )
    def test_the_row_of_what_is_not_a_time(self, entries: tuple[str, ...]) -> None:
        with pytest.raises(DataError, match=f"row 1: '{entries[1][:8]}.*not a time"):
            read(*entries)


class TestAxis:
    @pytest.mark.parametrize(
        ("begin", "frequency", "unit", "count"),
        [
            ("2023-11-01", "MS", "month", 1),
            ("2023-11-30", "ME", "month", 1),
            ("2023-11-01 06:00", "MS", "month", 1),
            ("2023-01-31", "QE", "month", 3),
            ("1999-01-01", "YS", "year", 1),
            ("1999-12-31", "YE", "year", 1),
            ("2024-02-27", "D", "day", 1),
            ("2024-02-27", "7D", "day", 7),
            ("2024-02-28 22:00", "h", "hour", 1),
            ("2024-02-28 22:00", "6h", "hour", 6),
            ("2024-02-28 22:00", "15min", "fixed", 900_000_000),
        ],
    )
    def test_steps_and_the_future_as_pandas_has_them(self, begin: str, frequency: str, unit: str, count: int) -> None:
        stamps = pd.date_range(begin, periods=40, freq=frequency).as_unit("us")
        moments = stamps.astype(np.int64).to_numpy()
        axis = TimeAxis.infer(Times(moments[:20], "%Y-%m-%d"))
        assert (axis.unit, axis.count) == (unit, count)
        np.testing.assert_array_equal(axis.after(int(moments[19]), 20), moments[20:])
        assert axis.breaks(moments).tolist() == []
        assert axis.breaks(np.delete(moments, [5, 6, 11])).tolist() == [5, 9]
        np.testing.assert_allclose(axis.distances(np.delete(moments, [5, 6]))[4], 3, atol=0.01)

    def test_days_that_a_month_does_not_have(self) -> None:
        axis = axis_of("2023-10-30", "2023-11-30", "2023-12-30", "2024-01-30", "2024-02-29", "2024-03-30")
        assert (axis.unit, axis.count) == ("month", 1)
        last = read("2025-01-30").moments[0].item()
        assert [axis.spell(moment.item()) for moment in axis.after(last, 2)] == ["2025-02-28", "2025-03-30"]

    def test_a_stamp_beside_the_axis(self) -> None:
        entries = ("2024-01-01", "2024-02-01", "2024-03-04", "2024-04-01", "2024-05-01")
        assert axis_of(*entries).breaks(read(*entries).moments).tolist() == [2, 3]

    def test_numbers_and_years(self) -> None:
        assert str(axis_of("1700", "1701", "1702")) == "1 year"
        axis = axis_of("0.1", "0.2", "0.30000000000000004", "0.4")
        assert [axis.spell(moment.item()) for moment in axis.after(0.4, 3)] == ["0.5", "0.6", "0.7"]
        whole = axis_of("10", "20", "30")
        assert [whole.spell(moment.item()) for moment in whole.after(30, 2)] == ["40", "50"]

    def test_what_has_no_step(self) -> None:
        with pytest.raises(DataError, match="1 stamp"):
            axis_of("2024-01-01")
        with pytest.raises(DataError, match="Sort"):
            axis_of("2024-01-02", "2024-01-01")
        axis = axis_of("9998-01-01", "9999-01-01")
        beyond = axis.after(read("9999-01-01").moments[0].item(), 1)[0].item()
        with pytest.raises(DataError, match="9999"):
            axis.spell(beyond)
