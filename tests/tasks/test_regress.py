"""Regression: figures against scikit-learn's, models by hand, runs there and back, molecules, and bad input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from tests.tensors import as_tensors

from unspool.data.inputs import NumberInputs, TextInputs
from unspool.data.labelled import Raw
from unspool.errors import ArgumentError, DataError, DataWarning, TrainingError
from unspool.models.catalogue import make_learner
from unspool.models.pooled import Regressor
from unspool.runs.config import read_config
from unspool.runs.train import plan, train
from unspool.settings.data import MeasuredData
from unspool.tasks.batch import Batch
from unspool.tasks.regress import Regression

TINY: dict[str, Any] = {"hidden": 8, "layers": 1, "engine": "torch", "dropout": 0.0, "batch_size": 8}
SMILES = ["CCO", "c1ccccc1Cl", "CC(=O)O", "C[C@@H](N)C(=O)O", "BrCCBr", "CCCCCC", "OC1CCCCC1", "CC#N"]


def raw_of(texts: Sequence[str], targets: Sequence[Sequence[Any]] | None, column: str = "text") -> Raw:
    rows = None if targets is None else [tuple(target) for target in targets]
    return Raw(list(texts), None, [str(n) for n in range(len(texts))], lambda n: f"row {n}", rows, (column,))


def task_of(targets: Sequence[Sequence[Any]], **data: Any) -> Regression:
    """A task in memory, validated on what it is trained on."""
    raw = raw_of((SMILES * 9)[: len(targets)], targets)
    return Regression.of({"training": raw, "validation": raw}, MeasuredData(files=("-",), **data))


def canonical_form(text: str) -> str:
    return str(Chem.MolToSmiles(Chem.MolFromSmiles(text)))


def numbers(rows: int, columns: int) -> list[list[float]]:
    found: list[list[float]] = np.random.default_rng(rows).normal([5] * columns, 3, (rows, columns)).tolist()
    return found


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class TestFigures:
    def test_of_one_target(self) -> None:
        y_true = numbers(20, 1)
        task = task_of(y_true)
        y_pred = np.array(numbers(20, 1)) * 0.9
        rows = np.arange(20)[::-1].copy()
        found = task.metrics(task.parts["validation"], rows, list(y_pred[rows]))
        assert found == {
            "RMSE": pytest.approx(root_mean_squared_error(y_true, y_pred), rel=1e-12),
            "MAE": pytest.approx(mean_absolute_error(y_true, y_pred), rel=1e-12),
            "R²": pytest.approx(r2_score(y_true, y_pred), rel=1e-12),
        }

    def test_of_several_are_means_and_those_of_each(self) -> None:
        y_true = numbers(15, 2)
        task = task_of(y_true, target=("weight", "height"))
        y_pred = np.array(y_true) * [0.5, 3.0]
        found = task.metrics(task.parts["validation"], np.arange(15), list(y_pred))
        oracles: Any = {"RMSE": root_mean_squared_error, "MAE": mean_absolute_error, "R²": r2_score}
        for name, oracle in oracles.items():
            each = oracle(y_true, y_pred, multioutput="raw_values")
            assert found[name] == pytest.approx(each.mean(), rel=1e-12)
            assert [found[f"{name} of weight"], found[f"{name} of height"]] == pytest.approx(each, rel=1e-12)
        assert len(found) == 9

    def test_r_squared_is_left_out_where_nothing_changes(self) -> None:
        task = task_of([[1.0], [1.0], [4.0]])
        part = task.parts["validation"]
        assert task.metrics(part, np.array([0, 1]), [np.array([2.0])] * 2) == {"RMSE": 1.0, "MAE": 1.0}

    def test_the_mean_is_what_to_beat(self) -> None:
        found = task_of(numbers(30, 2)).baselines()["mean"]
        assert found["loss"] == pytest.approx(1, rel=1e-6)
        assert found["R²"] == pytest.approx(0, abs=1e-12)


class TestLearner:
    def test_loss_and_answers_by_hand(self) -> None:
        y_true = np.array(numbers(6, 2))
        task = task_of(y_true.tolist())
        torch.manual_seed(0)
        learner = make_learner(task, MODEL)
        scores = torch.randn(6, 2)
        batch = as_tensors(task.parts["training"].batch(np.arange(6)))
        scaled = (y_true - y_true.mean(0)) / y_true.std(0)
        assert float(learner.summed_loss(scores, batch)) / 6 == pytest.approx(
            np.square(scores.numpy() - scaled).mean(), rel=1e-5
        )
        y_pred = np.stack(learner.predictions(scores, batch))
        np.testing.assert_allclose(y_pred, scores.double().numpy() * y_true.std(0) + y_true.mean(0), rtol=1e-12)

    def test_loss_of_an_evaluation_is_that_of_its_answers(self) -> None:
        y_true = np.array(numbers(9, 2))
        task = task_of(y_true.tolist())
        learner = make_learner(task, MODEL)
        loss, predictions = task.infer(learner, task.parts["validation"], np.arange(9))
        errors = (np.stack(predictions) - y_true) / y_true.std(0)
        assert loss == pytest.approx(np.square(errors).mean(), rel=1e-5)

    def test_the_share_of_a_letter_is_learned_exactly(self, tmp_path: Path) -> None:
        """A mean of letters' vectors and a linear head can say it without error, so that a good search must find it."""
        chance = np.random.default_rng(0)
        texts = ["".join(chance.choice(list("ab"), chance.integers(2, 9))) for _ in range(60)]
        rows = [f"{text},{100 + 10 * text.count('a') / len(text)}" for text in texts]
        file = write(tmp_path / "letters.csv", "text,target", *rows)
        tiny: dict[str, Any] = {"hidden": 8, "batch_size": 8, "lr": 0.03, "epochs": 40}
        trained = train(file, task="regress", out=tmp_path / "run", backbone="bag", **tiny)
        assert trained.finished.validation["RMSE"] < 0.05
        assert trained.finished.validation["R²"] > 0.999
        assert trained.finished.baselines["mean"]["RMSE"] > 1


MODEL = read_config(
    {
        "task": "regress",
        "data": {"files": ["-"]},
        "model": {name: TINY[name] for name in ("hidden", "layers", "engine")},
    }
).model


class TestRuns:
    def test_of_text_with_several_targets(self, tmp_path: Path) -> None:
        rows = [f"{text},{len(text)},{text.count('C')}" for text in SMILES * 3]
        file = write(tmp_path / "molecules.csv", "smiles,length,carbons", *rows)
        options = {**TINY, "target": ["length", "carbons"], "validation": 0.2, "test": 0.2, "steps": 3}
        trained = train(file, task="regress", out=tmp_path / "run", **options)
        assert {"loss", "RMSE", "MAE of carbons"} <= trained.finished.test.keys()
        document = json.loads((tmp_path / "run" / "vocabulary.json").read_text(encoding="utf-8"))
        again = Regression.restore(document, plan(file, task="regress", **options).data)
        bare = write(tmp_path / "bare.csv", "smiles", *SMILES)
        records = list(again.predict(trained.learner, again.read(bare, targets=False)))  # type: ignore[arg-type]
        assert [record["text"] for record in records] == SMILES
        rows = [f"{number},{text},{number}" for number, text in enumerate(SMILES)]
        whole = write(tmp_path / "whole.csv", "length,smiles,carbons", *rows)
        figures = again.evaluate_files(trained.learner, whole)
        y_pred = np.array([[record["length"], record["carbons"]] for record in records])
        y_true = np.arange(len(SMILES))[:, None].repeat(2, 1)
        assert figures["RMSE"] == pytest.approx(root_mean_squared_error(y_true, y_pred), rel=1e-9)
        assert [*again.predict(trained.learner, again.read(whole, targets=False))] == records  # type: ignore[arg-type]

    def test_of_numbers_in_long_form(self, tmp_path: Path) -> None:
        chance = np.random.default_rng(3)
        rows = [
            f"s{number},{step},{chance.normal():.3f},{chance.normal():.3f},{number}"
            for number in range(8)
            for step in range(2 + number % 3)
        ]
        file = write(tmp_path / "steps.csv", "id,time,x,y,value", *rows)
        y_pred: dict[str, Any] = {"id_column": "id", "time_column": "time", "target": ("value",), "validation": 0.25}
        data = MeasuredData(files=(str(file),), **y_pred)
        task = Regression.prepare(data, 0)
        assert isinstance(task.inputs, NumberInputs)
        assert task.inputs.names == ("x", "y")
        again = Regression.restore(json.loads(json.dumps(task.dump())), data)
        learner = make_learner(task, MODEL)
        turned = [",".join(row.split(",")[place] for place in (3, 0, 1, 2)) for row in rows]  # and no target
        bare = write(tmp_path / "bare.csv", "y,id,time,x", *turned)
        records = [*again.predict(learner, again.read(bare, targets=False))]
        assert records == [*task.predict(learner, task.read(file))]
        assert [record["id"] for record in records] == [f"s{number}" for number in range(8)]

    def test_columns_are_guessed(self, tmp_path: Path) -> None:
        for head in ("smiles,logS", "anything,target", "Text,Y"):
            file = write(tmp_path / "guess.csv", head, *(f"{text},{n}" for n, text in enumerate(SMILES)))
            task = Regression.prepare(MeasuredData(files=(str(file),)), 0)
            assert task.targets == (head.split(",")[1],)
            assert isinstance(task.inputs, TextInputs)
            assert task.inputs.vocabulary.kind == ("smiles" if head.startswith("smiles") else "char")

    def test_a_sample_says_what_was_so(self) -> None:
        task = task_of([[1.0, -2.5], [3.0, 7.0]])
        line = task.show(task.parts["validation"], 1, np.array([2.0, 6.123456]))
        assert line == "c1ccccc1Cl → 2, 6.123 (is 3, 7)"


class TestMolecules:
    def task(self, count: int) -> Regression:
        raw = raw_of(SMILES, [[float(n)] for n in range(len(SMILES))], "SMILES")
        return Regression.of({"training": raw, "validation": raw}, MeasuredData(files=("-",), augment_smiles=count))

    def test_each_writing_is_a_training_example(self) -> None:
        task = self.task(3)
        part = task.parts["training"]
        assert len(part.lengths) == 4 * len(SMILES)
        assert part.raw.texts[: len(SMILES)] == SMILES
        canonical = [canonical_form(text) for text in SMILES]
        assert [canonical_form(text) for text in part.raw.texts] == canonical * 4
        np.testing.assert_array_equal(part.targets.reshape(4, -1), np.tile(part.targets[: len(SMILES), 0], (4, 1)))
        assert isinstance(task.inputs, TextInputs)
        decoded = [task.inputs.vocabulary.decode(ids) for ids in part.inputs]
        assert decoded == part.raw.texts

    def test_a_prediction_is_the_mean_over_smiles(self) -> None:
        task = self.task(2)
        learner = make_learner(task, MODEL)
        part = task.parts["validation"]
        assert len(part.lengths) == len(SMILES)
        each = []
        for raw in (part.raw, *(variant.raw for variant in part.variants)):
            single = Regression.restore(task.dump(), MeasuredData(files=("-",)))
            each.append([record["target"] for record in single.predict(learner, single.part(raw))])
        assert len(each) == 3
        found = [record["target"] for record in task.predict(learner, part)]
        assert found == pytest.approx(np.mean(each, axis=0).tolist(), rel=1e-9)
        assert np.ptp(each, axis=0).max() > 1e-4
        figures = task.evaluate_part(learner, part)
        assert figures["RMSE"] == pytest.approx(root_mean_squared_error(np.arange(len(SMILES)), found), rel=1e-9)

    def test_no_molecule(self, tmp_path: Path) -> None:
        file = write(tmp_path / "m.csv", "smiles,y", "CC,1", "C(,2", "CCC,3")
        with pytest.raises(DataError, match=r"m.csv, line 3: 'C\(' is no molecule"):
            Regression.prepare(MeasuredData(files=(str(file),), validation=(str(file),), augment_smiles=1), 0)
        assert len(Regression.prepare(MeasuredData(files=(str(file),)), 0).parts["training"].lengths) == 2

    def test_only_of_text(self) -> None:
        with pytest.raises(ValueError, match=r"`augment_smiles` \(=2\) is for molecules, .* Leave one of them out"):
            MeasuredData(files=("-",), id_column="id", augment_smiles=2)


class TestBadInput:
    @pytest.mark.parametrize(
        ("lines", "options", "message"),
        [
            (["text,logS", "a,1", "b,2"], {"target": ["logs"]}, r"no column 'logs'. Did you mean 'logS'\?"),
            (["text,y", "a,1", "b,two", "c,3"], {}, "t.csv, line 3: `y` is 'two', not a finite number. Correct it"),
            (["text,y", "a,1", "b,nan", "c,3"], {}, "t.csv, line 3: `y` is 'nan', which stands for .* Fill it in"),
            (["text,y", "a,1", "b,inf", "c,3"], {}, "t.csv, line 3: `y` is 'inf', not a finite number"),
            (
                ["text,y", "a,1", "b,1", "c,1"],
                {},
                "`y` is 1 in all 2 training .* Give examples in which it differs",
            ),
            (["text,y", "a,1", ",2", "c,3"], {}, "t.csv, line 3: `text` is empty. Fill it in"),
            (["text,y", "a,1"], {}, r"1 example\(s\) are too few to divide .* Give more"),
            (
                ["text,a,b", "x,1,2", "y,2,1"],
                {},
                "the numbers to predict is not clear. Name it with `target`",
            ),
            (["text,y", "a,1", "b,1e300", "c,3", "d,4"], {}, r"1e\+300, too far from all|too large to be averaged"),
            (
                ["id,x,target", "a,1,1", "a,2,2", "b,1,3"],
                {"id_column": "id"},
                "t.csv, line 3: `target` is .*2.0.*, but .*1.0.* on a row before of sequence 'a'. Give",
            ),
            (["id,x,target", "a,1,1", "b,,2"], {"id_column": "id"}, "t.csv, line 3: `x` is empty"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_files(self, tmp_path: Path, lines: list[str], options: dict[str, Any], message: str) -> None:
        file = write(tmp_path / "t.csv", *lines)
        with pytest.raises(DataError, match=message):
            Regression.prepare(MeasuredData(files=(str(file),), **options), 0)

    def test_one_example_in_a_file_of_its_own(self, tmp_path: Path) -> None:
        file = write(tmp_path / "t.csv", "text,y", "a,1")
        with pytest.raises(DataError, match=r"`y` is 1 in all 1 training example\(s\): there is nothing to learn"):
            Regression.prepare(MeasuredData(files=(str(file),), validation=(str(file),)), 0)

    @pytest.mark.parametrize(
        ("targets", "message"),
        [
            ([[1.0], [float("nan")]], "row 1: target 1 is nan, not a finite number. Correct it"),
            ([[1.0, 2.0], [3.0, None]], "row 1: target 2 is None, not a finite number"),
            ([[1.0], ["2,5"]], "row 1: target 1 is '2,5', not a finite number"),
            ([[1.0, 2.0], [3.0]], "row 1: there are 1 targets, not 2. Give each example all"),
            ([[], []], "row 0: there are 0 targets, not 1"),
            ([], "no examples with targets. Give at least two"),
        ],
        ids=str,
    )
    def test_targets_in_memory(self, targets: list[list[Any]], message: str) -> None:
        with pytest.raises(DataError, match=message):
            task_of(targets)

    def test_names_that_do_not_fit(self) -> None:
        with pytest.raises(ArgumentError, match=r"`target` \(=\('a', 'b'\)\) does not name the 1 target.*Name each"):
            task_of(numbers(4, 1), target=("a", "b"))

    def test_a_model_that_diverged_is_said_to_have(self, tmp_path: Path) -> None:
        file = write(tmp_path / "t.csv", "text,y", *(f"{'ab' * n},{n}" for n in range(1, 9)))
        with pytest.raises(TrainingError, match="diverged"):
            train(file, task="regress", out=tmp_path / "run", **{**TINY, "lr": 1e38, "clip": 0.0, "steps": 20})
        task = task_of(numbers(4, 1))
        found = task.metrics(task.parts["validation"], np.arange(4), [np.array([np.nan])] * 4)
        assert list(found) == ["RMSE", "MAE", "R²"]
        assert np.isnan(list(found.values())).all()

    def test_sequences_in_memory(self) -> None:
        data = MeasuredData(files=("-",))

        def series(*shapes: tuple[int, ...]) -> dict[str, Raw]:
            arrays = [np.random.default_rng(0).normal(size=shape) for shape in shapes]
            names = [str(number) for number in range(len(shapes))]
            raw = Raw(None, arrays, names, lambda row: f"row {row}", [(float(row),) for row in range(len(shapes))])
            return {"training": raw, "validation": raw}

        with pytest.raises(DataError, match=r"row 2: .* has shape \(4, 3\), not \(steps, 2\). Give all features"):
            Regression.of(series((3, 2), (5, 2), (4, 3)), data)
        with pytest.raises(DataError, match="row 1: the sequence is empty. Leave it out"):
            Regression.of(series((3, 2), (0, 2)), data)
        empty = raw_of(["a", "", "b"], [[1], [2], [3]])
        with pytest.raises(DataError, match="row 1: the sequence is empty. Leave it out"):
            Regression.of({"training": empty, "validation": empty}, data)

    def test_a_target_beyond_all_others(self) -> None:
        task = task_of(numbers(8, 1))
        with pytest.raises(DataError, match=r"row 0: the target `target` is 1e\+300, too far from all"):
            task.part(raw_of(["CC"], [[1e300]]))

    def test_features_in_another_order(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.csv", "id,u,v,target", *(f"{n},{n},{n * n},{n}" for n in range(4)))
        other = write(tmp_path / "b.csv", "id,v,u,target", *(f"{n},{n},{n * n},{n}" for n in range(4)))
        data = MeasuredData(files=(str(file),), validation=(str(other),), id_column="id")
        with pytest.raises(DataError, match=r"b.csv, line 2: the features are v, u, and the model reads u, v. Name"):
            Regression.prepare(data, 0)
        named = data.model_copy(update={"features": ("u", "v")})
        assert Regression.prepare(named, 0).parts["validation"].raw.series[2].tolist() == [[4.0, 2.0]]

    def test_columns_that_are_both(self) -> None:
        for options in ({"target": ["y", "y"]}, {"target": ["y"], "text_column": "y"}):
            with pytest.raises(ArgumentError, match="`target` .*Name each column once"):
                read_config({"task": "regress", "data": {"files": ["-"], **options}})

    def test_a_run_of_something_else(self) -> None:
        task = task_of(numbers(4, 1))
        for wrong in ({}, {"target": ["y"]}, {"target": {"names": ["a", "b"], **task.scale.dump()}}):
            with pytest.raises(DataError, match="the run's own"):
                Regression.restore({**task.inputs.dump(), **wrong}, task.data)


def test_labels_of_series_are_no_numbers(tmp_path: Path) -> None:
    file = write(tmp_path / "a.ts", "@classLabel true walk run", "@data", "1,2:walk", "2,1:3", "3,1:run")
    message = r"2 problems:\n.*a\.ts, line 3: the target is 'walk', not a number.*`task='classify'`.*\n.*line 5"
    with pytest.raises(DataError, match=message):
        Regression.prepare(MeasuredData(files=(str(file),)), seed=0)


def test_a_test_part_without_targets_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "text,price", *(f"house {n},{n / 7}" for n in range(20)))
    write(tmp_path / "test.csv", "text", "house 3")
    with pytest.warns(DataWarning, match=r"test\.csv has no column 'price', and is not used as test data"):
        task = Regression.prepare(MeasuredData(files=(str(tmp_path),), target=("price",)), seed=0)
    assert {part: len(own.lengths) for part, own in task.parts.items()} == {"training": 18, "validation": 2}


def test_no_score_where_nobody_knows() -> None:
    task = task_of(numbers(5, 1))
    learner = make_learner(task, MODEL)
    part = task.part(raw_of(["CCO"], None))
    batch = as_tensors(part.batch(np.arange(1)))
    assert isinstance(learner, Regressor)
    assert isinstance(batch, Batch)
    assert batch.targets is None
    loss, predictions = task.infer(learner, part, np.arange(1))
    assert np.isnan(loss)
    assert np.isfinite(predictions[0]).all()
