"""The settings of data: section [data] of a config."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from unspool.data.schemes import Scheme
from unspool.data.vocabulary import TOKENIZERS, find_tokenizer
from unspool.errors import ArgumentError
from unspool.settings.section import Count, Effect, Files, Fraction, Portion, Section, Size, setting

TOKENIZER = (
    "how text is divided into tokens: char, byte, word, jieba, bpe or smiles; outside lm also auto: smiles in a column "
    "of that name, word where texts have spaces, else char"
)
VALIDATION = "validation data: a fraction such as 0.1, or files; for forecasts a fraction, or the number of last steps"
TEST = "test data, evaluated at the end, given like `validation`"
LOWERCASE = "lowercase the text; a tagger still reads the characters of a word as they are"
TIMES = "column of times; rows must be in its order; guessed from names and entries by default"
VOCAB_SIZE = "keep the most frequent tokens only; default: all (4,096 for bpe)"
GUESSED = "guessed from names and entries by default"
LABELS = f"column of labels; {GUESSED}. multilabel: give several for columns of 0 and 1, one per label"


class DataFiles(Section):
    """Where data comes from, and how it is split."""

    files: Annotated[Files, Field(min_length=1)] = setting(..., "files, folders and patterns", "Data")
    validation: Portion = setting(0.1, VALIDATION, "Data", common=True)
    test: Portion = setting(0.0, TEST, "Data", common=True)
    split_seed: Count = setting(0, "seed of the random split into training, validation and test", "Data")


class TextData(DataFiles):
    """Text, and how it is divided into tokens and parts."""

    effects = (Effect(("split_seed",), "split", ("lines",)),)

    tokenizer: Literal[tuple(TOKENIZERS)] = setting("char", TOKENIZER, "Data", common=True)  # type: ignore[valid-type]
    vocab_size: Size | None = setting(None, VOCAB_SIZE, "Data", common=True)
    split: Literal["tail", "lines"] = setting(
        "tail",
        "tail: validate on the end of the text; lines: assign lines at random, and shuffle them",
        "Data",
        common=True,
    )

    @model_validator(mode="after")
    def _fits_tokenizer(self) -> Self:
        find_tokenizer(self.tokenizer).check_size(self.vocab_size)
        return self


class ExampleData(DataFiles):
    """Examples: each is a sequence and what is to be predicted from it."""

    max_length: Size = setting(
        10_000, "longest sequence, in steps; a longer one is refused, since memory grows with it", "Data"
    )


class SequenceData(ExampleData):
    """Text, or sequences of numbers in long form (`id_column`, `time_column`, `features`)."""

    effects = (
        Effect(("time_column", "features"), "id_column", (None,), among=False),
        Effect(("text_column", "tokenizer", "vocab_size", "lowercase"), "id_column", (None,)),
    )

    text_column: str | None = setting(None, f"column of texts; {GUESSED}", "Data", common=True)
    tokenizer: Literal[("auto", *TOKENIZERS)] = setting("auto", TOKENIZER, "Data", common=True)  # type: ignore[valid-type]
    vocab_size: Size | None = setting(None, VOCAB_SIZE, "Data", common=True)
    lowercase: bool = setting(False, LOWERCASE, "Data")
    id_column: str | None = setting(
        None, "column with the sequence that a row belongs to, for numbers in long form", "Data", common=True
    )
    time_column: str | None = setting(None, TIMES, "Data", common=True)
    features: tuple[str, ...] = setting(
        (), "columns read as input, for numbers in long form; default: all others", "Data"
    )


class LabelledData(SequenceData):
    """Labelled text, or labelled sequences of numbers."""

    label_column: str | None = setting(None, LABELS, "Data", common=True)


def _as_list(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


class MultiLabelData(SequenceData):
    """Text or sequences of numbers, each with any number of labels."""

    label_column: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = setting((), LABELS, "Data", common=True)
    label_separator: Annotated[str, Field(min_length=1)] | None = setting(
        None, "what separates the labels of one cell, such as |; default: guessed from |, ; and ,", "Data"
    )


class MeasuredData(SequenceData):
    """Text or sequences of numbers, and numbers to predict."""

    target: tuple[str, ...] = setting((), f"columns to predict; {GUESSED}", "Data", common=True)
    augment_smiles: Count = setting(
        0, "alternative SMILES strings per molecule; the prediction is the mean over all of them", "Data"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        read = [self.text_column, self.id_column, self.time_column, *self.features]
        for place, target in enumerate(self.target):
            if target in read:
                raise ArgumentError.of("target", target, "is also an input", "Name each column once")
            if target in self.target[:place]:
                raise ArgumentError.of("target", target, "is given twice", "Name each column once")
        if self.augment_smiles and self.id_column is not None:
            problem = "is for molecules, and with `id_column` sequences are numbers"
            raise ArgumentError.of("augment_smiles", self.augment_smiles, problem, "Leave one of them out")
        return self


class TaggedData(ExampleData):
    """Sentences in column files: a word and, last, its tag on each line, an empty line between sentences."""

    scheme: Literal["auto", Scheme] = setting(
        "auto", "how tags mark spans: bio, bioes or io (also plain tags); auto: by their letters", "Data"
    )
    lowercase: bool = setting(False, LOWERCASE, "Data")


class PairedData(ExampleData):
    """Pairs of texts: two columns without a header, or named columns of any table."""

    source_column: str | None = setting(
        None, f"column of source texts, or its number where there is no header; {GUESSED}", "Data"
    )
    target_column: str | None = setting(
        None, f"column of target texts, or its number where there is no header; {GUESSED}", "Data"
    )
    tokenizer: Literal[("auto", *TOKENIZERS)] = setting("auto", TOKENIZER, "Data", common=True)  # type: ignore[valid-type]
    vocab_size: Size | None = setting(None, VOCAB_SIZE, "Data", common=True)


def _ordered(quantiles: tuple[float, ...]) -> tuple[float, ...]:
    if list(quantiles) != sorted({*quantiles, 0.5}):
        raise ArgumentError.of("quantiles", quantiles, "do not ascend, or lack 0.5", "Give, for example, 0.1, 0.5, 0.9")
    return quantiles


class SeriesData(Section):
    """A table of series: a row is a step of one, in order of time. The last steps are for validation and test."""

    files: Annotated[Files, Field(min_length=1)] = setting(..., "files, folders and patterns", "Data")
    validation: Fraction | Size = setting(0.2, VALIDATION, "Data", common=True)
    test: Fraction | Size = setting(0.0, TEST, "Data", common=True)
    time_column: str | None = setting(None, TIMES, "Data", common=True)
    target: tuple[str, ...] = setting((), f"columns to predict; {GUESSED}", "Data", common=True)
    series_column: str | None = setting(
        None, "column with the series that a row belongs to; guessed where several rows have one time", "Data"
    )
    future_covariates: tuple[str, ...] = setting(
        (), "columns known ahead, such as holidays; rows without targets at the end give their future", "Data"
    )
    past_covariates: tuple[str, ...] = setting((), "further input columns, of which only the past is known", "Data")
    horizon: Size | None = setting(
        None, "steps to forecast; default: one season, or a tenth of the series and at most 12", "Data", common=True
    )
    lookback: Size | None = setting(
        None,
        "steps that a forecast reads; default: two seasons, the horizon and as many as an autoregression needs",
        "Data",
        common=True,
    )
    season: Size | None = setting(
        None, "steps per season, such as 12 for months; default: what calendar and data show significantly", "Data"
    )
    quantiles: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...], AfterValidator(_ordered), Field(min_length=1)
    ] = setting((0.1, 0.5, 0.9), "quantiles to predict, the median among them", "Data")
