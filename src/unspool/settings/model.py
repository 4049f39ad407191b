"""The settings of models: section [model] of a config. Every model is a backbone of recurrent layers and a head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from unspool.cells import CATALOGUE, Cell, cell_name, find_cell
from unspool.errors import ArgumentError
from unspool.settings.cells import Cells, NamedCell
from unspool.settings.search import Around, Choices, Span
from unspool.settings.section import (
    BeamSize,
    Count,
    Delay,
    Depth,
    Effect,
    File,
    Fraction,
    NotNegative,
    Positive,
    Section,
    Width,
    WidthOrNone,
    setting,
)

#: Cells that torch.nn has.
IN_TORCH = ("elman", "elman-relu", "lstm", "gru-reset-after")
#: Settings of a backbone that torch.nn's layers do not have.
NOT_IN_TORCH = (
    *("residual", "skip", "variational_dropout", "recurrent_dropout", "weight_dropout", "zoneout", "forget_bias"),
    *("gate_penalty", "deep_supervision"),
)
#: Settings of recurrent layers, without effect on models without memory.
OF_LAYERS = ("cell", "layers", *NOT_IN_TORCH, "engine")
#: Settings of the embedding of tokens, without effect on sequences of numbers.
OF_EMBEDDING = ("embedding", "pretrained_embeddings", "embedding_std", "subwords", "word_dropout")
#: Settings of training that concern the output of recurrent layers.
OF_OUTPUT = ("activation_penalty", "temporal_penalty")
#: Settings with which the gates of a layer do not follow from its input and output.
HIDING_GATES = ("residual", "skip", "recurrent_dropout", "weight_dropout", "zoneout")

AUTO_DROPOUT = "dropout between layers, and before and after them; auto: one rate per layer, set by its activity"
BACKBONE = (
    "recurrent, or a baseline without memory: mlp at every step (lm, tag); for the other tasks bag (of vectors), fcn "
    "(shared, summed) or cnn (1-D convolution)"
)
EMBEDDING = (
    "size of the token embedding; default: `hidden`, at most 128; in lm `hidden`, at most 64 for characters and bytes"
)
HIDDEN = "units per layer (and direction); give several for one per layer"
VECTORS = "file of word vectors (word2vec or GloVe text format) that the embedding starts from"
CNN_LAYERS = "layers of the cnn backbone; it sees 1 + 2 · layers steps at once"
POOLING = "how a sequence becomes one vector: attention, mean, max or last"
FREEZE = "keep pretrained embeddings as they are in training; with `tied`, also the output layer"
#: What a search tries of layers, of the embedding, and of most kinds of dropout.
WIDTHS, EMBEDDINGS, RATES = Around(0.25, 2.0, whole=True), Choices((32, 64, 128, 256)), Span(0.0, 0.5)
WORD_DROPOUT = "fraction of words read as unknown in training, by their characters alone"


FREEZING = Effect(("freeze_embeddings",), "pretrained_embeddings", (None,), among=False)


def count_layers(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings of a model in which lists with one entry per layer also say how many layers there are."""
    lists = [given[name] for name in ("cell", "hidden") if isinstance(given.get(name), list | tuple)]
    if "layers" in given or not lists or not lists[0]:
        return given
    return {**given, "layers": len(lists[0])}


class Backbone(Section):
    """The recurrent layers of a model."""

    effects: ClassVar[tuple[Effect, ...]] = (
        Effect(("residual", "skip"), "layers", (1,), among=False),
        Effect(("variational_dropout",), "dropout", (0,), among=False),
        Effect(("forget_bias",), "init", (None, "orthogonal")),
    )

    cell: Cells = setting(
        "lstm",
        f"recurrent cell: {', '.join(CATALOGUE)}, or your own, as mine.py:Name; give several for one per layer",
        "Model",
        common=True,
        search=Choices(("lstm", "gru")),
    )
    hidden: Width | tuple[Width, ...] = setting(256, HIDDEN, "Model", common=True, search=WIDTHS)
    layers: Depth = setting(1, "number of recurrent layers", "Model", common=True, search=Span(1, 3, step=1))
    residual: bool = setting(False, "each layer from the second on adds its input to its output", "Model")
    skip: bool = setting(False, "each layer also reads the output of the layer two below", "Model")
    init: Positive | Literal["orthogonal"] | None = setting(
        None,
        "initial weights: uniform within ± this number, or orthogonal recurrent matrices; default: as torch.nn",
        "Model",
        common=True,
    )
    forget_bias: float | None = setting(
        None, "initial bias of gates that keep the state, such as an LSTM's forget gate", "Model", common=True
    )
    engine: Literal["kernel", "torch"] = setting(
        "kernel", "kernel: unspool's layers; torch: torch.nn's layers", "Model", common=True
    )
    dropout: Fraction | Literal["auto"] = setting(
        0.0, AUTO_DROPOUT, "Regularization", common=True, search=Span(0.0, 0.7)
    )
    variational_dropout: bool = setting(False, "dropout uses the same mask at every time step", "Regularization")
    recurrent_dropout: Fraction = setting(
        0.0, "dropout of the hidden state between time steps, one mask per batch", "Regularization", search=RATES
    )
    weight_dropout: Fraction = setting(
        0.0, "dropout of the recurrent weights (DropConnect), one mask per batch", "Regularization", search=RATES
    )
    zoneout: Fraction = setting(0.0, "probability that a unit keeps its previous state", "Regularization", search=RATES)
    gate_penalty: NotNegative = setting(
        0.0,
        "weight of a penalty on closed gates: a layer's output gate times the next layer's input gate (lstm)",
        "Regularization",
    )
    deep_supervision: NotNegative | tuple[NotNegative, ...] = setting(
        0.0, "weight of an auxiliary loss on each layer below the top; one number, or one per layer", "Regularization"
    )

    @model_validator(mode="after")
    def _fits_engine(self) -> Self:
        if self.engine != "torch":
            return self
        self._check_cells_of_torch()
        asked = [f"`{name}`" for name in self._given(NOT_IN_TORCH)]
        asked += ["one `cell` per layer"] * isinstance(self.cell, tuple)
        asked += ["one `hidden` per layer"] * isinstance(self.hidden, tuple)
        asked += ["`dropout='auto'`"] * (self.dropout == "auto") + ["`init='orthogonal'`"] * (self.init == "orthogonal")
        if asked:
            problem = f"does not support {', '.join(asked)}"
            raise ArgumentError.of("engine", "torch", problem, "Leave it out, or use `engine='kernel'`")
        return self

    def _check_cells_of_torch(self) -> None:
        for cell in {self.cell} if isinstance(self.cell, str) else {*self.cell}:
            if cell.lower() not in IN_TORCH:
                raise ArgumentError.of(
                    "engine",
                    "torch",
                    f"has no cell {str(cell)!r}",
                    f"Use one of {', '.join(IN_TORCH)}, or `engine='kernel'`",
                )

    @model_validator(mode="before")
    @classmethod
    def _count_layers(cls, given: Any) -> Any:
        """Lists with one entry per layer say how many layers there are."""
        return count_layers(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _one_per_layer(self) -> Self:
        for name in ("cell", "hidden"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.layers:
                problem = f"is not one per layer: there are {self.layers} layer(s)"
                raise ArgumentError.of(
                    name, [*map(_plain, value)], problem, "Give one for all of them, or change `layers`"
                )
        return self

    @model_validator(mode="after")
    def _fits_forget_bias(self) -> Self:
        if self.forget_bias is not None and (without := [cell for cell in self.cells if not cell.keeps]):
            problem = f"is for gates that keep the state, and {cell_name(without[0])} has none"
            raise ArgumentError.of("forget_bias", self.forget_bias, problem, "Leave it out, or use another `cell`")
        return self

    @model_validator(mode="after")
    def _fits_residual(self) -> Self:
        if self.residual and self.skip:
            problem = "adds a layer's input to its output, and with `skip` the input is wider"
            raise ArgumentError.of("residual", True, problem, "Leave one of them out")
        if self.residual and len(set(self.sizes)) > 1:
            problem = "adds a layer's input to its output, and `hidden` differs between layers"
            raise ArgumentError.of("residual", True, problem, "Give all layers the same `hidden`, or leave it out")
        return self

    @model_validator(mode="after")
    def _fits_layers(self) -> Self:
        given = self.deep_supervision
        if isinstance(given, tuple) and len(given) != self.layers - 1:
            problem = f"is not one weight for each of the {self.layers - 1} layer(s) below the top"
            raise ArgumentError.of("deep_supervision", given, problem, "Give one number for all of them")
        if given and self.layers == 1:
            problem = "is for layers below the top, and there is one layer"
            raise ArgumentError.of("deep_supervision", given, problem, "Leave it out, or give `layers=2`")
        return self

    @model_validator(mode="after")
    def _has_gates(self) -> Self:
        if not self.gate_penalty:
            return self
        names = {one.lower() for one in ((self.cell,) if isinstance(self.cell, str) else self.cell)}
        cell = names.pop() if len(names) == 1 else "mixed"
        hiding = [f"`{name}`" for name in self._given(HIDING_GATES)]
        for refused, problem, remedy in (
            (cell == "lstm-open", "is 0 for lstm-open, whose output gate is always open", "use `cell='lstm'`"),
            (cell != "lstm", f"is for the gates of lstm, and the cell is {self.cell}", "use `cell='lstm'`"),
            (self.layers < 2, "is between neighboring layers, and there is one layer", "give `layers=2`"),
            (hiding, f"cannot be computed with {', '.join(hiding)}", "leave those out"),
        ):
            if refused:
                raise ArgumentError.of("gate_penalty", self.gate_penalty, problem, f"Leave it out, or {remedy}")
        return self

    def _given(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if getattr(self, name) not in (None, False, 0)]

    def describe(self) -> str:
        """The layers in a few words: 2 × 128 lstm."""
        if isinstance(self.cell, str) and isinstance(self.hidden, int):
            return f"{self.layers} × {self.hidden} {self.cell}"
        names = self.cell if isinstance(self.cell, tuple) else (self.cell,) * self.layers
        return " + ".join(f"{size} {name}" for size, name in zip(self.sizes, names, strict=True))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell of each layer, from the lowest up."""
        each = self.cell if isinstance(self.cell, tuple) else (self.cell,) * self.layers
        return tuple(one.cell if isinstance(one, NamedCell) else find_cell(one) for one in each)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The units of each layer, from the lowest up."""
        return self.hidden if isinstance(self.hidden, tuple) else (self.hidden,) * self.layers

    def with_one_layer(self, hidden: int | None = None) -> Self:
        """The same settings for one layer, of the top's cell and size unless another size is given."""
        cell = self.cell[-1] if isinstance(self.cell, tuple) else self.cell
        size = self.sizes[-1] if hidden is None else hidden
        return self.model_copy(update={"cell": cell, "hidden": size, "layers": 1, "residual": False, "skip": False})

    @property
    def supervised(self) -> dict[int, float]:
        """Layers below the top that have heads of their own, by number, and the weights of their losses."""
        given = self.deep_supervision
        weights = given if isinstance(given, tuple) else (given,) * (self.layers - 1)
        return {level: weight for level, weight in enumerate(weights) if weight}


class LanguageModelSettings(Backbone):
    """A language model: embedding, recurrent layers, head."""

    effects = (*Backbone.effects, Effect(OF_LAYERS, "backbone", ("recurrent",)), FREEZING)

    embedding: Width | None = setting(None, EMBEDDING, "Model", common=True, search=EMBEDDINGS)
    pretrained_embeddings: File | None = setting(None, VECTORS, "Model", common=True)
    freeze_embeddings: bool = setting(False, FREEZE, "Model")
    embedding_dropout: Fraction = setting(
        0.0,
        "dropout of whole tokens in the embedding, the same tokens all over a batch",
        "Regularization",
        search=RATES,
    )
    tied: bool = setting(False, "the head shares its weights with the embedding", "Model", common=True)
    backbone: Literal["recurrent", "mlp"] = setting("recurrent", BACKBONE, "Model")


class EncoderSettings(Backbone):
    """Recurrent layers that read a whole sequence before anything is predicted from it."""

    effects: ClassVar[tuple[Effect, ...]] = (*Backbone.effects, FREEZING)

    hidden: Width | tuple[Width, ...] = setting(128, HIDDEN, "Model", common=True, search=WIDTHS)
    bidirectional: bool = setting(True, "layers read the sequence in both directions", "Model", common=True)
    embedding: Width | None = setting(None, EMBEDDING, "Model", common=True, search=EMBEDDINGS)
    pretrained_embeddings: File | None = setting(None, VECTORS, "Model", common=True)
    freeze_embeddings: bool = setting(False, FREEZE, "Model")


class PooledSettings(EncoderSettings):
    """An encoder whose sequence is pooled into one vector."""

    effects = (
        *EncoderSettings.effects,
        Effect((*OF_LAYERS, *OF_OUTPUT, "bidirectional", "pooling", "input_window"), "backbone", ("recurrent",)),
        Effect(("cnn_layers",), "backbone", ("cnn",)),
        Effect(OF_EMBEDDING, "id_column", (None,)),
        Effect(("subwords",), "tokenizer", ("auto", "word", "jieba")),
        Effect(("word_dropout",), "tokenizer", ("byte", "bpe"), among=False),
        Effect(("label_smoothing", "mixup", "members"), "task", ("classify",)),
    )

    pooling: Literal["attention", "mean", "max", "last"] = setting("attention", POOLING, "Model", common=True)
    members: Depth = setting(
        1,
        "networks that learn side by side from different initial weights; they predict their mean (classify)",
        "Model",
    )
    input_window: Count = setting(
        0, "last steps of the layers' input x that are read beside their output h: pool relu(W [h; x] + b)", "Model"
    )
    subwords: Count = setting(
        0, "rows of a table of hashed character n-grams, which are added to the embedding of a word; 0: none", "Model"
    )
    embedding_std: Positive = setting(1.0, "standard deviation of the initial token embedding", "Model")
    word_dropout: Fraction = setting(0.0, WORD_DROPOUT, "Regularization", search=Span(0.0, 0.3))
    label_smoothing: Fraction = setting(
        0.0,
        "weight of the uniform distribution in the targets of training (classify)",
        "Regularization",
        search=Span(0.0, 0.2),
    )
    mixup: NotNegative = setting(
        0.0,
        "mix the vectors and the labels of two examples in training, by a fraction from Beta(`mixup`, `mixup`) "
        "(classify); 0: never",
        "Regularization",
    )
    backbone: Literal["recurrent", "bag", "fcn", "cnn"] = setting("recurrent", BACKBONE, "Model")
    cnn_layers: Depth = setting(1, CNN_LAYERS, "Model")

    def describe(self) -> str:
        """The layers in a few words: 3 members of 1 × 64 lstm."""
        layers = super().describe()
        return f"{self.members} members of {layers}" if self.members > 1 else layers


class TaggerSettings(EncoderSettings):
    """An encoder that predicts at every step."""

    effects = (
        *EncoderSettings.effects,
        Effect(("time_delay",), "bidirectional", (False,)),
        # the others also apply to the layer that reads a word's characters
        Effect(
            ("layers", "bidirectional", "residual", "skip", "variational_dropout", "deep_supervision", "gate_penalty"),
            "backbone",
            ("recurrent",),
        ),
    )

    hidden: Width | tuple[Width, ...] = setting(200, HIDDEN, "Model", common=True, search=WIDTHS)
    dropout: Fraction | Literal["auto"] = setting(
        0.5, AUTO_DROPOUT, "Regularization", common=True, search=Span(0.0, 0.7)
    )
    char_hidden: WidthOrNone = setting(
        25, "units per direction of the layer that reads a word's characters; 0: characters are not read", "Model"
    )
    word_dropout: Fraction = setting(0.05, WORD_DROPOUT, "Regularization", search=Span(0.0, 0.3))
    crf: bool = setting(True, "predict tags jointly with a conditional random field", "Model", common=True)
    time_delay: Delay = setting(
        0, "words that are read ahead of the one that is tagged, where layers read in one direction", "Model"
    )
    backbone: Literal["recurrent", "mlp"] = setting("recurrent", BACKBONE, "Model")

    @model_validator(mode="after")
    def _fits_delay(self) -> Self:
        if self.time_delay and (self.engine == "torch" or self.gate_penalty):
            other = "`engine='torch'`" if self.engine == "torch" else "`gate_penalty`"
            raise ArgumentError.of("time_delay", self.time_delay, f"does not work with {other}", "Leave one out")
        return self


class JointSettings(TaggerSettings):
    """An encoder that predicts at every step, and whose sequence is pooled for a label of the whole."""

    pooling: Literal["attention", "mean", "max", "last"] = setting("attention", POOLING, "Model", common=True)


class Seq2SeqSettings(EncoderSettings):
    """An encoder that reads a text, and a decoder with as many layers that writes another."""

    attention: bool = setting(True, "the decoder attends to the encoder's states", "Model")
    beam_size: BeamSize = setting(1, "width of beam search in decoding; 1: greedy", "Model")


class ForecasterSettings(Backbone):
    """Recurrent layers over the past, and one over the horizon."""

    effects = (
        *Backbone.effects,
        Effect((*OF_LAYERS, *OF_OUTPUT, "bidirectional"), "backbone", ("recurrent",)),
        Effect(("cnn_layers",), "backbone", ("cnn",)),
    )

    hidden: Width | tuple[Width, ...] = setting(64, HIDDEN, "Model", common=True, search=WIDTHS)
    bidirectional: bool = setting(False, "layers read the sequence in both directions", "Model", common=True)
    relative_to: Literal["season", "last", "none"] = setting(
        "season", "predict differences from the last season, from the last value, or plain values", "Model"
    )
    backbone: Literal["recurrent", "bag", "fcn", "cnn"] = setting("recurrent", BACKBONE, "Model")
    cnn_layers: Depth = setting(1, CNN_LAYERS, "Model")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value
