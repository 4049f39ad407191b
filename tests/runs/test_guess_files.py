"""The guess on small files: what a person would take them for, and that the data can then be read."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from tests.runs.small_files import (
    DNA,
    SMILES,
    Case,
    conll,
    cycle,
    european,
    gestures,
    months,
    of_panel,
    of_series,
    ohlcv,
    sentences,
    series,
    stamps,
    table,
    unclear,
    unix,
    wide,
)

from unspool.errors import DataError
from unspool.runs.guess import guess_task
from unspool.runs.train import plan as read_settings

CLASSIFY, REGRESS, PAIRS = "classify", "regress", "seq2seq"

SERIES = [
    of_series(
        "a.csv", lambda: table("time,y", stamps(120, "%Y-%m-%d %H:%M:%S", hours=1), series(120, 24)), "time", "y"
    ),
    of_series("airline.csv", lambda: table("Month,Passengers", months(96), series(96)), "Month", "Passengers"),
    of_series("prophet.csv", lambda: table("ds,y", stamps(90), series(90, 7)), "ds", "y"),
    of_series("co2.csv", lambda: table("Period,co2 (ppm)", months(96), series(96)), "Period", "co2 (ppm)"),
    of_series(
        "gmt.csv",
        lambda: table("datetime_gmt,value", stamps(100, "%Y-%m-%dT%H:%M:%S+00:00", hours=1), series(100, 24)),
        "datetime_gmt",
        "value",
    ),
    of_series("utc.csv", lambda: table("level,date_utc", series(90, 7), stamps(90)), "date_utc", "level"),
    of_series(
        "zone.csv",
        lambda: table("when,power", stamps(100, "%Y-%m-%dT%H:%M:%S+02:00", hours=1), series(100, 24)),
        "when",
        "power",
    ),
    of_series("unix.csv", lambda: table("ts,value", unix(120, 3600), series(120, 24)), "ts", "value"),
    of_series(
        "millis.csv", lambda: table("timestamp,price", unix(120, 60, 1000), series(120, 10)), "timestamp", "price"
    ),
    of_series(
        "half hours.csv",
        lambda: table("settlement,demand", stamps(480, "%Y-%m-%d %H:%M", minutes=30), series(480, 48)),
        "settlement",
        "demand",
    ),
    of_series(
        "sensor.csv",
        lambda: table(
            "Timestamp,Temp (°C),Humidity [%]",
            stamps(90, "%Y-%m-%d %H:%M:%S", minutes=10),
            series(90),
            series(90, seed=1),
        ),
        "Timestamp",
        "Temp (°C)",
        "Humidity [%]",
    ),
    of_series(
        "messung.csv",
        lambda: table("Datum;Pegel", stamps(90, "%d.%m.%Y"), [european(value) for value in series(90, 7)], between=";"),
        "Datum",
        "Pegel",
    ),
    of_series(
        "excel.csv", lambda: "\ufeff" + table("Date,Sales", stamps(90, "%m/%d/%Y"), series(90, 7)), "Date", "Sales"
    ),
    of_series("stock.csv", ohlcv, "Date", "Close"),
    of_series(
        "quarters.csv",
        lambda: table("quarter,gdp", [f"{2000 + n // 4}Q{n % 4 + 1}" for n in range(60)], series(60, 4)),
        "quarter",
        "gdp",
    ),
    of_series(
        "names of months.csv",
        lambda: table(
            "month,births", [datetime.strptime(one, "%Y-%m").strftime("%b %Y") for one in months(72)], series(72)
        ),
        "month",
        "births",
    ),
    of_series(
        "sunspots.csv", lambda: table("YEAR,SUNACTIVITY", [*range(1800, 1900)], series(100, 11)), "YEAR", "SUNACTIVITY"
    ),
    of_series("steps.csv", lambda: table("step,loss", [*range(100)], series(100)), "step", "loss"),
    of_series(
        "pandas.csv", lambda: table("Unnamed: 0,date,sales", [*range(90)], stamps(90), series(90, 7)), "date", "sales"
    ),
    of_series("no name.csv", lambda: table(",value", [*range(90)], series(90)), "1", "value"),
    of_series("index.csv", lambda: table("Unnamed: 0,x", [*range(90)], series(90)), "Unnamed: 0", "x"),
    of_series(
        "wide.csv",
        lambda: table("date,Berlin,Paris,Rome", stamps(90), *(series(90, 7, seed) for seed in range(3))),
        "date",
        "Berlin",
        "Paris",
        "Rome",
    ),
    of_panel("long.csv", "store_id,date,sales", [1, 2, 3], stamps(90)),
    of_panel("nixtla.csv", "unique_id,ds,y", ["H1", "H2"], [*range(1, 91)]),
    of_panel("cities.csv", "city,month,rain", ["Bern", "Graz"], months(72)),
    of_series(
        "series.jsonl",
        lambda: "".join(json.dumps({"t": t, "v": v}) + "\n" for t, v in zip(stamps(90), series(90, 7), strict=True)),
        "t",
        "v",
    ),
    of_series("tabs.tsv", lambda: table("date\tvalue", stamps(90), series(90, 7), between="\t"), "date", "value"),
    of_series(
        "loads.csv",
        lambda: table(
            '"";"MT_001";"MT_002"',
            [f'"{one}"' for one in stamps(480, "%Y-%m-%d %H:%M:%S", minutes=15)],
            *([european(value) for value in series(480, 96, seed)] for seed in (0, 1)),
            between=";",
        ),
        "1",
        "MT_001",
        "MT_002",
    ),
    of_panel("prices.csv", "Symbol,Date,Adj Close", ["AAA", "BBB"], stamps(90)),
    of_series(
        "weather.csv",
        lambda: table(
            "date,precipitation,wind,weather", stamps(90), series(90), series(90, seed=1), cycle(90, "rain", "sun")
        ),
        "date",
        "precipitation",
        "wind",
    ),
    of_series(
        "promotions.csv",
        lambda: table("date,sales,promo", stamps(90), series(90, 7), cycle(90, 0, 0, 1)),
        "date",
        "sales",
    ),
    of_series(
        "flags.csv",
        lambda: table("date,load,is_open", stamps(90), series(90, 7), cycle(90, "true", "false", "true")),
        "date",
        "load",
    ),
    of_series(
        "calendar.csv",
        lambda: table(
            "date,weekday,month,visitors",
            stamps(400),
            cycle(400, *range(7)),
            [int(one[5:7]) for one in stamps(400)],
            series(400, 7),
        ),
        "date",
        "visitors",
    ),
    of_series(
        "few sales.csv",  # few values are counts where nothing says that they are kinds
        lambda: table("date,price,sold_per_day", stamps(90), series(90), cycle(90, 3, 0, 2, 1, 0, 4)),
        "date",
        "price",
        "sold_per_day",
    ),
    of_series(
        "switch.csv",  # and an indicator alone is what there is to forecast
        lambda: table("date,is_on", stamps(90), cycle(90, 0, 1, 1, 0, 1)),
        "date",
        "is_on",
    ),
    of_series(
        "counts.csv",
        lambda: table(
            "hour,y", stamps(100, "%Y-%m-%d %H:00", hours=1), [round(value) % 7 for value in series(100, 24)]
        ),
        "hour",
        "y",
    ),
]

SERIES += [
    of_series("m4.csv", lambda: wide([f"V{n}" for n in range(1, 42)]), "step", "value", series="V1"),
    of_series("m5.csv", lambda: wide(["id", *(f"d_{n}" for n in range(1, 41))]), "step", "value", series="id"),
    of_series("traffic.csv", lambda: wide(["Page", *stamps(40)]), "date", "value", series="Page"),
    of_series(
        "countries.csv", lambda: wide(["Country Name", *range(1960, 2000)]), "date", "value", series="Country Name"
    ),
]

TEXTS = [
    # texts and labels
    Case(
        "intents.jsonl",
        lambda: "".join(
            json.dumps({"utterance": text, "intent": label}) + "\n"
            for text, label in zip(sentences(30), cycle(30, "play", "stop"), strict=True)
        ),
        CLASSIFY,
        {"text_column": "utterance", "label_column": "intent"},
    ),
    Case(
        "train.csv",
        lambda: table("id,keyword,text,target", [*range(40)], cycle(40, "fire", ""), sentences(40), cycle(40, 0, 1)),
        CLASSIFY,
        {"text_column": "text", "label_column": "target"},
    ),
    Case(
        "tweets.csv",
        lambda: table(
            "tweet_id,created_at,tweet,sentiment",
            [*range(40)],
            stamps(40),
            sentences(40),
            cycle(40, "positive", "negative"),
        ),
        CLASSIFY,
        {"text_column": "tweet", "label_column": "sentiment"},
    ),
    Case(
        "spam.csv",
        lambda: table("category,message", cycle(30, "ham", "spam"), sentences(30)),
        CLASSIFY,
        {"text_column": "message", "label_column": "category"},
    ),
    Case(
        "dna.csv",
        lambda: table("sequence,class", DNA, cycle(30, "EI", "IE", "N")),
        CLASSIFY,
        {"text_column": "sequence", "label_column": "class"},
    ),
    Case(
        "unnamed.csv",
        lambda: table("Unnamed: 0,review,label", [*range(30)], sentences(30), cycle(30, 0, 1)),
        CLASSIFY,
        {"text_column": "review", "label_column": "label"},
    ),
    Case(
        "surnames.csv",
        lambda: table(
            "surname,nationality", [f"Name{chr(97 + n)}ov" for n in range(26)], cycle(26, "Russian", "Bulgarian")
        ),
        CLASSIFY,
        {"text_column": "surname", "label_column": "nationality"},
    ),
    Case(
        "gestures.csv", gestures, CLASSIFY, {"id_column": "recording_id", "time_column": "t", "label_column": "label"}
    ),
    Case(
        "stars.csv",
        lambda: table("review,rating", sentences(40), cycle(40, 1, 2, 3, 4, 5)),
        CLASSIFY,
        {"text_column": "review", "label_column": "rating"},
    ),
    # texts and numbers
    Case(
        "esol.csv",
        lambda: table("smiles,logS", SMILES, series(30)),
        REGRESS,
        {"text_column": "smiles", "target": ("logS",)},
    ),
    Case(
        "molecules.csv",
        lambda: table("Compound ID,SMILES,y", [f"m{n}" for n in range(30)], SMILES, series(30)),
        REGRESS,
        {"text_column": "SMILES", "target": ("y",)},
    ),
    Case(
        "essays.csv",
        lambda: table("essay_id,essay,score", [*range(40)], sentences(40), series(40)),
        REGRESS,
        {"text_column": "essay", "target": ("score",)},
    ),
    # texts and texts
    Case("pairs.tsv", lambda: table("one\teins", sentences(20), sentences(20, 1), between="\t"), PAIRS, {}),
    Case(
        "translation.csv",
        lambda: table("english,french", sentences(20), sentences(20, 1)),
        PAIRS,
        {"source_column": "english", "target_column": "french"},
    ),
    Case(
        "no header.csv",
        lambda: table(f"{sentences(1)[0]},{sentences(1, 1)[0]}", sentences(20, 2), sentences(20, 3)),
        PAIRS,
        {},
    ),
    # texts alone
    Case("ner.txt", conll, "tag", {}),
    Case("ner.conll", conll, "tag", {}),
    Case(
        "topics.txt",
        lambda: "__label__a __label__b play it\n" + "__label__a play\n__label__b stop\n" * 9,
        "multilabel",
        {},
    ),
    Case("poem.txt", lambda: "\n".join(sentences(400)), "lm", {}),
    Case("server.log", lambda: "".join(f"{stamp} INFO started worker\n" for stamp in stamps(300)), "lm", {}),
    Case("code.py", lambda: "def add(a, b):\n    return a + b\n\n" * 200, "lm", {}),
    Case("names.txt", lambda: "".join(f"Anna{chr(97 + n % 26)}\n" for n in range(900)), "lm", {}),
    # what a person would ask about
    unclear(
        "iris.csv",
        lambda: table("sepal_length,petal_length,species", series(30), series(30), cycle(30, "a", "b")),
        "what is to be learned is not clear",
    ),
    unclear("houses.csv", lambda: table("rooms,area,price", series(30), series(30), series(30)), "task='regress'"),
    unclear(
        "two columns of time.csv",
        lambda: table(
            "year,month,sales", [2000 + n // 12 for n in range(60)], [n % 12 + 1 for n in range(60)], series(60)
        ),
        "what is to be learned is not clear",
    ),
    unclear("rows.yaml", lambda: "- text: hi\n  label: a\n" * 9, "YAML that is not known"),
    unclear("settings.txt", lambda: '{\n"a": {"b": [1, 2]}\n}\n', "JSON that is not known"),
    unclear("only texts.csv", lambda: table("text", sentences(20)), "what is to be learned is not clear"),
    unclear("only numbers.csv", lambda: table("value", series(20)), "what is to be learned is not clear"),
    unclear(
        "features.csv",
        lambda: table(
            ",".join(["id", "area", *(f"x{n}" for n in range(12))]),
            [*range(9)],
            series(9),
            *([n] * 9 for n in range(12)),
        ),
        "each row seems to be a series. To forecast each, give `task='forecast'`",
    ),
    unclear(
        "activity.csv",
        lambda: table("time,x,y,label", [*range(40)], series(40), series(40), cycle(40, "walk", "run")),
        "`id_column` names",
    ),
    Case(
        "log.csv",
        lambda: table("timestamp,level,text", stamps(30), cycle(30, "INFO", "WARN", "ERROR"), sentences(30)),
        CLASSIFY,
        {"label_column": "level"},
    ),
]


@pytest.mark.parametrize("case", [*SERIES, *TEXTS], ids=lambda case: case.file)
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
