"""The guess on small files as people name and shape them: what a person would take them for, and that data is read so."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from unspool.errors import DataError
from unspool.runs.guess import guess_task
from unspool.runs.train import plan as read_settings

BEGIN = datetime(2023, 1, 1)
WORDS = "the a small big red old dog cat house tree sees likes finds near under over not very".split()


class Case(NamedTuple):
    """A file, the task, and settings that the guess must have; or the error."""

    file: str
    content: Callable[[], str]
    task: str | None
    settings: dict[str, Any]
    error: str = ""


def series(steps: int, season: int = 12, seed: int = 0, level: float = 20) -> list[float]:
    chance = np.random.default_rng(seed)
    wave = level + 5 * np.sin(2 * np.pi * np.arange(steps) / season) + chance.normal(size=steps)
    return [round(float(value), 2) for value in wave]


def months(count: int) -> list[str]:
    return [f"{2000 + month // 12}-{month % 12 + 1:02}" for month in range(count)]


def stamps(count: int, form: str = "%Y-%m-%d", **step: float) -> list[str]:
    return [(BEGIN + number * timedelta(**(step or {"days": 1}))).strftime(form) for number in range(count)]


def table(header: str, *columns: list[Any], between: str = ",") -> str:
    rows = zip(*columns, strict=True)
    return header + "\n" + "".join(between.join(map(str, row)) + "\n" for row in rows)


def sentences(count: int, seed: int = 0) -> list[str]:
    chance = np.random.default_rng(seed)
    return [" ".join(chance.choice(WORDS, 7)) + f" {number}" for number in range(count)]


def cycle(count: int, *entries: Any) -> list[Any]:
    return [entries[number % len(entries)] for number in range(count)]


def conll() -> str:
    return "Anna B-PER\nlives O\nin O\nNew B-LOC\nYork I-LOC\n\nBob B-PER\nsleeps O\n\n" * 6


def long_table(header: str, ids: list[Any], count: int, times: list[Any]) -> str:
    rows = [(one, time, value) for place, one in enumerate(ids) for time, value in zip(times, series(count, 7, place), strict=True)]
    return table(header, *map(list, zip(*rows, strict=True)))


def unix(count: int, seconds: int, unit: int = 1) -> list[int]:
    first = int(datetime(2023, 1, 1, tzinfo=UTC).timestamp())
    return [(first + number * seconds) * unit for number in range(count)]


def european(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def ohlcv() -> str:
    close = series(120, 7)
    numbers = [[round(value + offset, 2) for value in close] for offset in (-0.1, 0.5, -0.5)]
    volume = [1000 + int(10 * value) for value in close]
    return table("Date,Open,High,Low,Close,Volume", stamps(120), *numbers, close, volume)


def gestures() -> str:
    rows = [(one, step, 0.1 * step * one, "left" if one % 2 else "right") for one in range(20) for step in range(6)]
    return table("recording_id,t,x,gesture_label".replace("gesture_label", "label"), *map(list, zip(*rows, strict=True)))


SMILES = ["C" * n + "O" for n in range(1, 31)]
DNA = ["".join(np.random.default_rng(n).choice(list("ACGT"), 30)) for n in range(30)]
FORECAST, CLASSIFY, REGRESS, PAIRS = "forecast", "classify", "regress", "seq2seq"

CASES = [
    # series
    Case("a.csv", lambda: table("time,y", stamps(120, "%Y-%m-%d %H:%M:%S", hours=1), series(120, 24)), FORECAST, {"time_column": "time", "target": ("y",)}),
    Case("airline.csv", lambda: table("Month,Passengers", months(96), series(96)), FORECAST, {"time_column": "Month", "target": ("Passengers",)}),
    Case("prophet.csv", lambda: table("ds,y", stamps(90), series(90, 7)), FORECAST, {"time_column": "ds", "target": ("y",)}),
    Case("co2.csv", lambda: table("Period,co2 (ppm)", months(96), series(96)), FORECAST, {"time_column": "Period", "target": ("co2 (ppm)",)}),
    Case("gmt.csv", lambda: table("datetime_gmt,value", stamps(100, "%Y-%m-%dT%H:%M:%S+00:00", hours=1), series(100, 24)), FORECAST, {"time_column": "datetime_gmt", "target": ("value",)}),
    Case("utc.csv", lambda: table("level,date_utc", series(90, 7), stamps(90)), FORECAST, {"time_column": "date_utc", "target": ("level",)}),
    Case("zone.csv", lambda: table("when,power", stamps(100, "%Y-%m-%dT%H:%M:%S+02:00", hours=1), series(100, 24)), FORECAST, {"time_column": "when", "target": ("power",)}),
    Case("unix.csv", lambda: table("ts,value", unix(120, 3600), series(120, 24)), FORECAST, {"time_column": "ts", "target": ("value",)}),
    Case("millis.csv", lambda: table("timestamp,price", unix(120, 60, 1000), series(120, 10)), FORECAST, {"time_column": "timestamp", "target": ("price",)}),
    Case("half hours.csv", lambda: table("settlement,demand", stamps(480, "%Y-%m-%d %H:%M", minutes=30), series(480, 48)), FORECAST, {"time_column": "settlement", "target": ("demand",)}),
    Case("sensor.csv", lambda: table("Timestamp,Temp (°C),Humidity [%]", stamps(90, "%Y-%m-%d %H:%M:%S", minutes=10), series(90), series(90, seed=1)), FORECAST, {"time_column": "Timestamp", "target": ("Temp (°C)", "Humidity [%]")}),
    Case("messung.csv", lambda: table("Datum;Pegel", stamps(90, "%d.%m.%Y"), [european(value) for value in series(90, 7)], between=";"), FORECAST, {"time_column": "Datum", "target": ("Pegel",)}),
    Case("excel.csv", lambda: "\ufeff" + table("Date,Sales", stamps(90, "%m/%d/%Y"), series(90, 7)), FORECAST, {"time_column": "Date", "target": ("Sales",)}),
    Case("stock.csv", ohlcv, FORECAST, {"time_column": "Date", "target": ("Close",)}),
    Case("quarters.csv", lambda: table("quarter,gdp", [f"{2000 + n // 4}Q{n % 4 + 1}" for n in range(60)], series(60, 4)), FORECAST, {"time_column": "quarter", "target": ("gdp",)}),
    Case("names of months.csv", lambda: table("month,births", [datetime.strptime(one, "%Y-%m").strftime("%b %Y") for one in months(72)], series(72)), FORECAST, {"time_column": "month", "target": ("births",)}),
    Case("sunspots.csv", lambda: table("YEAR,SUNACTIVITY", [*range(1800, 1900)], series(100, 11)), FORECAST, {"time_column": "YEAR", "target": ("SUNACTIVITY",)}),
    Case("steps.csv", lambda: table("step,loss", [*range(100)], series(100)), FORECAST, {"time_column": "step", "target": ("loss",)}),
    Case("pandas.csv", lambda: table("Unnamed: 0,date,sales", [*range(90)], stamps(90), series(90, 7)), FORECAST, {"time_column": "date", "target": ("sales",)}),
    Case("no name.csv", lambda: table(",value", [*range(90)], series(90)), FORECAST, {"time_column": "1", "target": ("value",)}),
    Case("index.csv", lambda: table("Unnamed: 0,x", [*range(90)], series(90)), FORECAST, {"time_column": "Unnamed: 0", "target": ("x",)}),
    Case("wide.csv", lambda: table("date,Berlin,Paris,Rome", stamps(90), *(series(90, 7, seed) for seed in range(3))), FORECAST, {"time_column": "date", "target": ("Berlin", "Paris", "Rome")}),
    Case("long.csv", lambda: long_table("store_id,date,sales", [1, 2, 3], 90, stamps(90)), FORECAST, {"time_column": "date", "series_column": "store_id", "target": ("sales",)}),
    Case("nixtla.csv", lambda: long_table("unique_id,ds,y", ["H1", "H2"], 90, [*range(1, 91)]), FORECAST, {"time_column": "ds", "series_column": "unique_id", "target": ("y",)}),
    Case("cities.csv", lambda: long_table("city,month,rain", ["Bern", "Graz"], 72, months(72)), FORECAST, {"time_column": "month", "series_column": "city", "target": ("rain",)}),
    Case("series.jsonl", lambda: "".join(json.dumps({"t": t, "v": v}) + "\n" for t, v in zip(stamps(90), series(90, 7), strict=True)), FORECAST, {"time_column": "t", "target": ("v",)}),
    Case("tabs.tsv", lambda: table("date\tvalue", stamps(90), series(90, 7), between="\t"), FORECAST, {"time_column": "date", "target": ("value",)}),
    Case("loads.csv", lambda: table('"";"MT_001";"MT_002"', [f'"{one}"' for one in stamps(480, "%Y-%m-%d %H:%M:%S", minutes=15)], *([european(value) for value in series(480, 96, seed)] for seed in (0, 1)), between=";"), FORECAST, {"time_column": "1", "target": ("MT_001", "MT_002")}),
    Case("prices.csv", lambda: long_table("Symbol,Date,Adj Close", ["AAA", "BBB"], 90, stamps(90)), FORECAST, {"time_column": "Date", "series_column": "Symbol", "target": ("Adj Close",)}),
    Case("weather.csv", lambda: table("date,precipitation,wind,weather", stamps(90), series(90), series(90, seed=1), cycle(90, "rain", "sun")), FORECAST, {"time_column": "date", "target": ("precipitation", "wind")}),
    Case("counts.csv", lambda: table("hour,y", stamps(100, "%Y-%m-%d %H:00", hours=1), [round(value) % 7 for value in series(100, 24)]), FORECAST, {"time_column": "hour", "target": ("y",)}),
    # texts and labels
    Case("intents.jsonl", lambda: "".join(json.dumps({"utterance": text, "intent": label}) + "\n" for text, label in zip(sentences(30), cycle(30, "play", "stop"), strict=True)), CLASSIFY, {"text_column": "utterance", "label_column": "intent"}),
    Case("train.csv", lambda: table("id,keyword,text,target", [*range(40)], cycle(40, "fire", ""), sentences(40), cycle(40, 0, 1)), CLASSIFY, {"text_column": "text", "label_column": "target"}),
    Case("tweets.csv", lambda: table("tweet_id,created_at,tweet,sentiment", [*range(40)], stamps(40), sentences(40), cycle(40, "positive", "negative")), CLASSIFY, {"text_column": "tweet", "label_column": "sentiment"}),
    Case("spam.csv", lambda: table("category,message", cycle(30, "ham", "spam"), sentences(30)), CLASSIFY, {"text_column": "message", "label_column": "category"}),
    Case("dna.csv", lambda: table("sequence,class", DNA, cycle(30, "EI", "IE", "N")), CLASSIFY, {"text_column": "sequence", "label_column": "class"}),
    Case("unnamed.csv", lambda: table("Unnamed: 0,review,label", [*range(30)], sentences(30), cycle(30, 0, 1)), CLASSIFY, {"text_column": "review", "label_column": "label"}),
    Case("surnames.csv", lambda: table("surname,nationality", [f"Name{chr(97 + n)}ov" for n in range(26)], cycle(26, "Russian", "Bulgarian")), CLASSIFY, {"text_column": "surname", "label_column": "nationality"}),
    Case("gestures.csv", gestures, CLASSIFY, {"id_column": "recording_id", "time_column": "t", "label_column": "label"}),
    Case("stars.csv", lambda: table("review,rating", sentences(40), cycle(40, 1, 2, 3, 4, 5)), CLASSIFY, {"text_column": "review", "label_column": "rating"}),
    # texts and numbers
    Case("esol.csv", lambda: table("smiles,logS", SMILES, series(30)), REGRESS, {"text_column": "smiles", "target": ("logS",)}),
    Case("molecules.csv", lambda: table("Compound ID,SMILES,y", [f"m{n}" for n in range(30)], SMILES, series(30)), REGRESS, {"text_column": "SMILES", "target": ("y",)}),
    Case("essays.csv", lambda: table("essay_id,essay,score", [*range(40)], sentences(40), series(40)), REGRESS, {"text_column": "essay", "target": ("score",)}),
    # texts and texts
    Case("pairs.tsv", lambda: table("one\teins", sentences(20), sentences(20, 1), between="\t"), PAIRS, {}),
    Case("translation.csv", lambda: table("english,french", sentences(20), sentences(20, 1)), PAIRS, {"source_column": "english", "target_column": "french"}),
    # texts alone
    Case("ner.txt", conll, "tag", {}),
    Case("ner.conll", conll, "tag", {}),
    Case("poem.txt", lambda: "\n".join(sentences(400)), "lm", {}),
    Case("server.log", lambda: "".join(f"{stamp} INFO started worker\n" for stamp in stamps(300)), "lm", {}),
    Case("code.py", lambda: "def add(a, b):\n    return a + b\n\n" * 200, "lm", {}),
    Case("names.txt", lambda: "".join(f"Anna{chr(97 + n % 26)}\n" for n in range(900)), "lm", {}),
    # what a person would ask about
    Case("iris.csv", lambda: table("sepal_length,petal_length,species", series(30), series(30), cycle(30, "a", "b")), None, {}, "what is to be learned is not clear"),
    Case("houses.csv", lambda: table("rooms,area,price", series(30), series(30), series(30)), None, {}, "task='regress'"),
    Case("two columns of time.csv", lambda: table("year,month,sales", [2000 + n // 12 for n in range(60)], [n % 12 + 1 for n in range(60)], series(60)), None, {}, "what is to be learned is not clear"),
    Case("only texts.csv", lambda: table("text", sentences(20)), None, {}, "what is to be learned is not clear"),
    Case("only numbers.csv", lambda: table("value", series(20)), None, {}, "what is to be learned is not clear"),
    Case("m4.csv", lambda: table("V1," + ",".join(f"V{n}" for n in range(2, 15)), ["Y1", "Y2"], *([n, n] for n in range(13))), None, {}, "each row seems to be a series"),
    Case("activity.csv", lambda: table("time,x,y,label", [*range(40)], series(40), series(40), cycle(40, "walk", "run")), None, {}, "`id_column` names"),
    Case("log.csv", lambda: table("timestamp,level,text", stamps(30), cycle(30, "INFO", "WARN", "ERROR"), sentences(30)), CLASSIFY, {"label_column": "level"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.file for case in CASES])
def test_the_guess_of_a_person(tmp_path: Path, case: Case) -> None:
    path = tmp_path / case.file
    path.write_text(case.content(), encoding="utf-8")
    if case.task is None:
        with pytest.raises(DataError, match=case.error):
            guess_task(path, {})
        return
    found = guess_task(path, {})
    assert found.task == case.task, found.why
    assert {name: found.settings.get(name) for name in case.settings} == case.settings
    assert ("series_column" in found.settings) == ("series_column" in case.settings)
    config = read_settings(path)
    task = config.task.prepare(config.data, 0)
    assert len(task.sequences().sides[0]) > 0
