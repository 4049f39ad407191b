"""Joint tagging: a tag for every word and a label for the whole sentence, such as slots and intents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data import saved
from unspool.data.memory import check_list
from unspool.data.problems import warn_unseen
from unspool.data.sequences import Indices
from unspool.errors import ArgumentTypeError, DataError
from unspool.tasks.batch import UNSEEN, Batch, JointPrediction, JointTargets
from unspool.tasks.contract import Claim
from unspool.tasks.label_lists import list_some, rank_labels, ranked_columns
from unspool.tasks.metrics import accuracy
from unspool.tasks.tag import Sentences, TaggedPart, Tagging

if TYPE_CHECKING:
    from unspool.data.glance import Glance
    from unspool.settings.data import TaggedData


@dataclass(frozen=True)
class JointPart(TaggedPart):
    """Tagged sentences with the numbers of their labels."""

    labels: NDArray[np.int64] | None = None

    def batch(self, indices: Indices) -> Batch:
        found = super().batch(indices)
        if self.labels is None or found.targets is None:
            return found._replace(targets=None)
        return found._replace(targets=JointTargets(found.targets, self.labels[indices]))

    @cached_property
    def right_tags(self) -> list[list[int]]:
        """The tags of each sentence, as numbers."""
        assert self.tags is not None
        return [tags.tolist() for tags in self.tags]


class JointTagging(Tagging):
    """Learning the tags and the label of a sentence with one model. A prediction is a `JointPrediction`.

    Example:
        task = JointTagging.prepare(TaggedData(files=("snips",)), seed=0)
        model = make_learner(task, JointSettings())
        task.evaluate(model, "validation")["exact match"]
    """

    name = "joint"
    #: How many of the best labels a prediction lists; None: the best one.
    top: int | None = None

    def __init__(self, *args: Any, labels: Sequence[str] = (), **of: Any) -> None:
        super().__init__(*args, **of)
        self.labels = list(labels)
        self.chosen_by = "exact match"

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        if glance.has_joint_folder:
            return Claim(60, f"{glance.name} has words in seq.in, their tags in seq.out and a label for each line")
        return None

    @classmethod
    def of(cls, raws: Mapping[str, Sentences], data: TaggedData, **of: Any) -> Self:
        _refuse_missing_labels(raws)
        labels = sorted({sentence.label for sentence in raws["training"]})
        if len(labels) < 2:
            raise DataError(
                f"all training sentences have the label {labels[0]!r}: there is nothing to tell apart. "
                "Give sentences of two labels at least, or `task='tag'`."
            )
        return super().of(raws, data, labels=labels, **of)

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: TaggedData) -> Self:
        found = super().restore(document, data)
        found.labels = saved.read_names(document, "labels")
        return found

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), "labels": self.labels}

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), "labels": f"{len(self.labels)}: {list_some(self.labels)}"}

    def part(self, sentences: Sentences) -> JointPart:
        found = super().part(sentences)
        known = bool(len(sentences)) and all(sentence.label for sentence in sentences)
        labels = self._number_labels(found.sentences) if known else None
        return JointPart(found.sentences, found.forms, found.ids, found.spellings, found.tags, labels)

    def part_of(self, examples: Any, targets: Any = None) -> JointPart:
        """As `Tagging`; a target is a pair of the tags and the label of a sentence."""
        if targets is None:
            return self.part(super().part_of(examples).sentences)
        pairs = check_list(targets, "targets", "Give a pair of tags and a label for each sentence")
        for place, pair in enumerate(pairs):
            _check_pair(f"targets[{place}]", pair)
        tags, labels = [pair[0] for pair in pairs], [str(pair[1]) for pair in pairs]
        tagged = super().part_of(examples, tags).sentences
        return self.part(Sentences(replace(one, label=label) for one, label in zip(tagged, labels, strict=True)))

    def _number_labels(self, sentences: Sentences) -> NDArray[np.int64]:
        number = {label: place for place, label in enumerate(self.labels)}
        found = np.array([number.get(sentence.label, UNSEEN) for sentence in sentences], np.int64)
        unseen = [sentence for sentence, label in zip(sentences, found, strict=True) if label == UNSEEN]
        if unseen:
            warn_unseen("label", "sentences", len(found), [one.label for one in unseen], unseen[0].place(0))
        return found

    # ── the model ──

    def metrics(self, part: TaggedPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        assert isinstance(part, JointPart)
        assert part.labels is not None
        of_tags = super().metrics(part, indices, [prediction.tags for prediction in predictions])
        y_true = part.labels[indices]
        y_pred = np.array([prediction.labels.argmax() for prediction in predictions], np.int64)
        same_tags = [
            part.right_tags[int(index)] == prediction.tags.tags.tolist()
            for index, prediction in zip(indices, predictions, strict=True)
        ]
        exact = float(np.mean((y_true == y_pred) & np.array(same_tags)))
        found = {"exact match": exact, "label accuracy": accuracy(y_true, y_pred), **of_tags}
        unseen = int((y_true == UNSEEN).sum())
        return {**found, "sentences": len(y_true), "unseen labels": unseen} if unseen else found

    def show(self, part: TaggedPart, index: int, prediction: JointPrediction) -> str:  # type: ignore[override]
        line = super().show(part, index, prediction.tags)
        label, target = self.labels[int(prediction.labels.argmax())], part.sentences[index].label
        return f"{line} · {label}" if label == target else f"✗{line[1:]} · {label}, not {target}"

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        of_label = ("label", "p(label)") if self.top is None else ranked_columns(self.labels, self.top)
        return (*super().prediction_columns, *of_label)

    def record(self, part: TaggedPart, index: int, prediction: JointPrediction) -> dict[str, Any]:  # type: ignore[override]
        of_tags = super().record(part, index, prediction.tags)
        if self.top is not None:
            return {**of_tags, **dict(rank_labels(self.labels, prediction.labels, self.top))}
        best = int(prediction.labels.argmax())
        return {**of_tags, "label": self.labels[best], "p(label)": float(prediction.labels[best])}


def _check_pair(name: str, pair: Any) -> None:
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    if not is_pair or not isinstance(pair[1], str):
        remedy = 'Give, for example, (["O", "B-city"], "flight")'
        raise ArgumentTypeError.of(name, pair, "is not a pair of a list of tags and a label", remedy)


def _refuse_missing_labels(raws: Mapping[str, Sentences]) -> None:
    missing = next((one for raw in raws.values() for one in raw if not one.label), None)
    if missing is not None:
        raise DataError(
            f"{missing.place(0)}: the sentence has no label. Give a file `label` with a line for each sentence, "
            "or another `task`."
        )
