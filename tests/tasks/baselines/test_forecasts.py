"""Plain forecasts against statsmodels and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.datasets import co2, sunspots
from statsmodels.tsa.ar_model import AutoReg, ar_select_order

from unspool.errors import ArgumentError, DataError, ShapeError
from unspool.tasks.baselines.forecasts import AR, persistence, seasonal_naive

SUNSPOTS = sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()
CO2 = co2.load_pandas().data["co2"].resample("MS").mean().interpolate().to_numpy()


class TestNaive:
    def test_what_is_repeated(self) -> None:
        assert persistence([1, 2, 3], 3).tolist() == [3, 3, 3]
        assert seasonal_naive([1, 2, 3, 4, 5], 7, 3).tolist() == [3, 4, 5, 3, 4, 5, 3]
        assert seasonal_naive([[1, 10], [2, 20]], 3, 2).tolist() == [[1, 10], [2, 20], [1, 10]]

    def test_refused(self) -> None:
        with pytest.raises(DataError, match="less than a season of 4"):
            seasonal_naive([1, 2, 3], 1, 4)
        with pytest.raises(ArgumentError, match="`horizon` .=0."):
            persistence([1], 0)
        for history in ([], [np.nan], 1.0, [np.inf]):
            with pytest.raises(DataError, match="history"):
                persistence(history, 1)


class TestAR:
    @pytest.mark.parametrize("order", [0, 1, 2, 9])
    @pytest.mark.parametrize("values", [SUNSPOTS, CO2], ids=["sunspots", "co2"])
    def test_as_statsmodels_has_it(self, values: np.ndarray, order: int) -> None:
        oracle = AutoReg(values, order).fit()
        found = AR.fit(values, order)
        np.testing.assert_allclose([found.intercept, *found.coefficients], oracle.params, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.deviation, np.sqrt(oracle.sigma2), rtol=1e-9)
        ahead = oracle.get_prediction(len(values), len(values) + 19)
        np.testing.assert_allclose(found.forecast(values, 20), ahead.predicted_mean, rtol=1e-8)
        for level in (0.8, 0.95):
            expected = ahead.conf_int(alpha=1 - level)
            np.testing.assert_allclose(np.stack(found.interval(values, 20, level), axis=1), expected, rtol=1e-7)

    @pytest.mark.parametrize("limit", [3, 12])
    @pytest.mark.parametrize("values", [SUNSPOTS, CO2], ids=["sunspots", "co2"])
    def test_the_order_as_statsmodels_chooses_it(self, values: np.ndarray, limit: int) -> None:
        lags = ar_select_order(values, limit, ic="aic").ar_lags or []
        assert len(AR.fit(values, limit=limit).coefficients) == len(lags)

    def test_what_has_no_noise(self) -> None:
        assert AR.fit([3.0] * 30).forecast([3.0], 2).tolist() == [3.0, 3.0]
        halves = 2 + 0.5 ** np.arange(30.0)
        found = AR.fit(halves[:12], 1)
        np.testing.assert_allclose(found.forecast(halves[:12], 5), halves[12:17], rtol=1e-12)
        low, high = found.interval(halves[:12], 5)
        np.testing.assert_allclose(low, high, atol=1e-12)

    def test_refused(self) -> None:
        with pytest.raises(DataError, match="4 steps are too few for order 2"):
            AR.fit([1, 2, 3, 4], 2)
        with pytest.raises(ArgumentError, match="`order` .=-1."):
            AR.fit([1, 2, 3, 4], -1)
        with pytest.raises(ShapeError, match="one dimension"):
            AR.fit([[1.0]])
        with pytest.raises(ShapeError, match="order 2"):
            AR.fit(SUNSPOTS, 2).forecast([1.0], 1)
        with pytest.raises(ArgumentError, match="`level` .=95."):
            AR.fit(SUNSPOTS, 2).interval(SUNSPOTS, 1, 95)
