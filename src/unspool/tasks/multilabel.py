"""Multi-label classification: which labels a text, or a sequence of numbers, has; any number of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data import saved
from unspool.data.columns import LABEL_NAMES, LABEL_SET_NAMES
from unspool.data.glance import Glance
from unspool.data.inputs import fit_inputs, load_inputs
from unspool.data.label_sets import guess_separator, holds_sets, read_flag, split_labels
from unspool.data.labelled import Raw
from unspool.data.problems import warn_unseen
from unspool.data.sequences import Indices
from unspool.errors import DataError
from unspool.tasks import labelled
from unspool.tasks.contract import Claim
from unspool.tasks.examples import digest_files
from unspool.tasks.label_lists import list_some
from unspool.tasks.labelled import LabelledPart, TargetColumns
from unspool.tasks.labels import LabelTask
from unspool.tasks.metrics import label_set_scores
from unspool.tasks.plain_settings import with_changes

if TYPE_CHECKING:
    from unspool.settings.data import MultiLabelData

#: An example has a label if its probability is at least this.
THRESHOLD = 0.5


class MultiLabelClassification(LabelTask):
    """Learning which labels a sequence has. A prediction is the probability of each label by itself.

    Example:
        task = MultiLabelClassification.prepare(MultiLabelData(files=("topics.csv",)), seed=0)
        model = make_learner(task, PooledSettings(hidden=64))
        task.evaluate(model, "validation")["micro-F1"]
    """

    name = "multilabel"
    predicted = "labels"
    chosen_by, more_is_better = "micro-F1", True

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        if not glance.is_table or glance.arrays is not None:
            return None
        found = labelled.find_target(glance)
        label = glance.find(LABEL_SET_NAMES) or (found.target if found else None)
        if label is None or not holds_sets(glance.table.text(label, empty=True)):
            return None
        settings = {**(found.inputs if found else {}), "label_column": (label,)}
        return Claim(30, f"`{label}` of {glance.name} holds several labels per row", settings)

    @classmethod
    def prepare(cls, data: MultiLabelData, seed: int) -> Self:
        raws = labelled.read_parts(data, label_columns(data))
        return cls.of(raws, data, digest=digest_files(data.files, data.validation, data.test), seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: MultiLabelData, **of: Any) -> Self:
        """From sequences in memory, by the part that they are for."""
        training = raws["training"]
        columns = {"text_column": labelled.text_column(training), "label_column": training.target_columns}
        data = labelled.remember_columns(data, columns)
        if len(data.label_column) == 1 and data.label_separator is None:
            cells = [str(target[0]) for target in training.targets or ()]
            data = with_changes(data, {"label_separator": guess_separator(cells)})
        inputs = fit_inputs(training, data.tokenizer, data.vocab_size, data.lowercase, data.features)
        sets = list(_label_sets(training, data))
        labels = sorted({label for own in sets for label in own})
        if not labels:
            raise DataError("no training example has a label: there is nothing to learn. Give examples with labels.")
        task = cls({}, inputs, labels, data, **of)
        task.parts = {name: task.part(raw) for name, raw in raws.items() if len(raw)}
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: MultiLabelData) -> Self:
        columns = saved.read_section(document, "columns")
        known = {
            "text_column": saved.read_name(columns, "text_column"),
            "label_column": tuple(saved.read_names(columns, "label_column", 0)),
            "label_separator": saved.read_name(columns, "label_separator"),
        }
        labels = saved.read_names(document, "labels")
        return cls({}, load_inputs(document), labels, labelled.remember_columns(data, known))

    def dump(self) -> dict[str, Any]:
        columns = {
            "text_column": self.data.text_column,
            "label_column": list(self.data.label_column),
            "label_separator": self.data.label_separator,
        }
        return {**self.inputs.dump(), "labels": self.labels, "columns": columns}

    def describe(self) -> Mapping[str, str]:
        targets = self.parts["training"].targets
        assert targets is not None
        return {
            **super().describe(),
            "labels": f"{len(self.labels)}, {targets.sum(1).mean():.1f} per example: {list_some(self.labels)}",
        }

    def target_columns(self) -> TargetColumns:
        return label_columns(self.data)

    def part(self, raw: Raw) -> LabelledPart:
        inputs, spellings = self.inputs.encode(raw, self.data.max_length), self.inputs.spell(raw)
        if raw.targets is None:
            return LabelledPart(inputs, None, raw, spellings)
        number = {label: place for place, label in enumerate(self.labels)}
        targets = np.zeros((len(raw), len(self.labels)), np.float32)
        unseen: list[tuple[int, str]] = []
        for row, own in enumerate(_label_sets(raw, self.data)):
            known = [number[label] for label in own if label in number]
            targets[row, known] = 1.0
            unseen += [(row, label) for label in own if label not in number]
        if unseen:
            names = [label for _, label in unseen]
            having = len({row for row, _ in unseen})
            how = "Each such label counts as missed; the loss is that of the others."
            warn_unseen("label", "examples", len(raw), names, raw.place(unseen[0][0]), having=having, how=how)
        return LabelledPart(inputs, targets, raw, spellings)

    def is_target(self, target: Any) -> bool:
        several = isinstance(target, list | tuple | set | frozenset | np.ndarray)
        return isinstance(target, str) or (several and all(isinstance(label, str) for label in target))

    def read_target(self, target: Any) -> tuple[Any, ...]:
        """The labels of an example, as one cell of a table has them."""
        separator: str = self.data.label_separator or "|"
        return (target if isinstance(target, str) else separator.join(target),)

    # ── the model ──

    def metrics(self, part: LabelledPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        chosen = part.raw.take(indices)
        y_true = list(_label_sets(chosen, self.data))
        scores = label_set_scores(y_true, [self.choose(one) for one in predictions])
        known = {*self.labels}
        unseen = sum(not known.issuperset(own) for own in y_true)
        return {**scores, "examples": len(y_true), "unseen labels": unseen} if unseen else scores

    def choose(self, probabilities: NDArray[np.float64]) -> list[str]:
        """The labels that are more likely than not."""
        return [self.labels[place] for place in np.flatnonzero(probabilities >= THRESHOLD)]

    def show(self, part: LabelledPart, index: int, prediction: Any) -> str:
        predicted = self.choose(prediction)
        target = next(_label_sets(part.raw.take(np.array([index])), self.data))
        line = f"{labelled.shorten_input(part.raw, index)} → {', '.join(predicted) or '–'}"
        return f"✓ {line}" if set(predicted) == set(target) else f"✗ {line}, not {', '.join(target) or '–'}"

    def spell_choice(self, probabilities: NDArray[np.float64]) -> str:
        separator: str = self.data.label_separator or "|"
        return separator.join(self.choose(probabilities))

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        if part not in self._baselines and part in self.parts:
            training, own = self.parts["training"], self.parts[part]
            assert training.targets is not None
            assert own.targets is not None
            rates = (training.targets.sum(0) + 1.0) / (len(training.targets) + 2.0)
            loss = -(own.targets * np.log(rates) + (1 - own.targets) * np.log1p(-rates)).sum(1).mean()
            indices = np.arange(len(own.lengths))
            metrics = self.metrics(own, indices, [rates] * len(indices))
            self._baselines[part] = {"frequency of each label": {"loss": float(loss), **metrics}}
        return self._baselines.get(part, {})


def _label_sets(raw: Raw, data: MultiLabelData) -> Iterator[tuple[str, ...]]:
    """The labels of each example."""
    columns = raw.target_columns
    for row, cells in enumerate(raw.targets or ()):
        if len(columns) > 1:
            flags = [read_flag(str(cell), raw.place(row), name) for cell, name in zip(cells, columns, strict=True)]
            yield tuple(name for name, flag in zip(columns, flags, strict=True) if flag)
        else:
            yield split_labels(str(cells[0]), data.label_separator or "|")


def label_columns(data: MultiLabelData) -> TargetColumns:
    """Where labels are found: all in one column, or each in its own."""
    return TargetColumns(data.label_column, (*LABEL_SET_NAMES, *LABEL_NAMES), "the labels", "label_column", empty=True)
