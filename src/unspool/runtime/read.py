"""Reads a network: the document of network.json and the tensors of model.safetensors, checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unspool.runtime.entries import Entry
from unspool.runtime.network import (
    FORMAT,
    OUTPUTS,
    POOLINGS,
    Array,
    Chain,
    Embedding,
    Forecaster,
    Language,
    Linear,
    Member,
    Network,
    Pooled,
    Pooling,
    SentenceLabel,
    Stack,
    Tagger,
    Translator,
)
from unspool.runtime.read_stack import Layers
from unspool.runtime.sources import Sources

#: The most of what a document may ask for; what settings allow, and more.
MOST_MEMBERS, MOST_QUANTILES, WIDEST_BEAM, LONGEST_SEARCH = 1000, 1000, 1000, 1 << 20
#: Ids of a translator's sides that stand for no text.
RESERVED = 3


def read_network(document: Any, tensors: Mapping[str, Array]) -> Network:
    """Make a network of its document.

    Args:
        document: What network.json says, as `json.loads` gives it; it may come from anywhere.
        tensors: The weights, by name. They are not copied, but for sums of several.

    Returns:
        The network, all of whose parts fit each other.

    Raises:
        DataError: The message names the place in the document and what is wrong there.

    Example:
        network = read_network(json.loads(text), safetensors.numpy.load_file("runs/book/model.safetensors"))
    """
    return _Reader(tensors).network(Entry(document))


def read_stack(document: Any, tensors: Mapping[str, Array]) -> Stack:
    """Make the recurrent layers that `unspool.models.describe.describe_layer` describes.

    Args:
        document: The description.
        tensors: The `state_dict` of the module as NumPy arrays.

    Returns:
        The layers.

    Raises:
        DataError: The message names the place in the document and what is wrong there.

    Example:
        stack = read_stack(describe_layer(module), {name: t.numpy() for name, t in module.state_dict().items()})
    """
    return Layers(Sources(tensors)).stack(Entry(document, "stack"))


class _Reader:
    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self.sources = Sources(tensors)
        self.layers = Layers(self.sources)
        self.kinds: dict[str, Callable[[str, Entry], Network]] = {
            "language": self.language,
            "pooled": self.pooled,
            "tagger": self.tagger,
            "forecaster": self.forecaster,
            "translator": self.translator,
        }

    def network(self, entry: Entry) -> Network:
        if not isinstance(entry.value, dict):
            entry.refuse("is not an object")
        common = ("format", "task", "kind")
        head = Entry({name: entry.value.get(name) for name in common}).open(*common)
        head["format"].whole(FORMAT, FORMAT)
        kind = head["kind"].text(tuple(self.kinds))
        rest = {name: value for name, value in entry.value.items() if name not in common}
        return self.kinds[kind](head["task"].text(), Entry(rest))

    def language(self, task: str, entry: Entry) -> Language:
        parts = entry.open("embedding", "stack", "projection", "head")
        embedding = self.embedding(parts["embedding"])
        stack = self.layers.stack(parts["stack"], embedding.weight.shape[1], streams=True)
        projection = parts["projection"].optional(lambda place: self.linear(place, stack.output_size))
        width = stack.output_size if projection is None else len(projection.weight)
        head = self.linear(parts["head"], width, len(embedding.weight))
        return Language(task, embedding, stack, projection, head)

    def pooled(self, task: str, entry: Entry) -> Pooled:
        parts = entry.open("members", "output")
        members = tuple(self.member(place) for place in parts["members"].each(1, MOST_MEMBERS))
        output = parts["output"].text(OUTPUTS)
        if len({len(member.head.weight) for member in members}) > 1:
            parts["members"].refuse("have heads of different sizes")
        if len(inputs := list(dict.fromkeys(_reads(member) for member in members))) > 1:
            parts["members"].refuse(f"read different inputs: {' and '.join(inputs)}")
        if len(members) > 1 and output != "softmax":
            parts["members"].refuse(f"are several, and only probabilities have a mean, not {output!r}")
        return Pooled(task, members, output)

    def member(self, entry: Entry) -> Member:
        parts = entry.open("embedding", "stack", "window", "merger", "pooling", "head")
        embedding = parts["embedding"].optional(self.embedding)
        stack = self.layers.stack(parts["stack"], None if embedding is None else embedding.weight.shape[1])
        window = parts["window"].whole(0, self.sources.widest)
        if (window == 0) != (parts["merger"].value is None):
            parts["merger"].refuse("and `window` belong together")
        wide = stack.output_size + window * stack.input_size
        merger = parts["merger"].optional(lambda place: self.linear(place, wide, stack.output_size))
        pooling = self.pooling(parts["pooling"], stack.output_size)
        return Member(embedding, stack, window, merger, pooling, self.linear(parts["head"], stack.output_size))

    def tagger(self, task: str, entry: Entry) -> Tagger:
        parts = entry.open("words", "letters", "speller", "stack", "head", "crf", "label")
        words, letters = self.embedding(parts["words"]), parts["letters"].optional(self.embedding)
        if (letters is None) != (parts["speller"].value is None):
            parts["speller"].refuse("and `letters` belong together")
        width, speller = words.weight.shape[1], None
        if letters is not None:
            speller = self.speller(parts["speller"], letters.weight.shape[1])
            width += speller.output_size
        stack = self.layers.stack(parts["stack"], width)
        head = self.linear(parts["head"], stack.output_size)
        crf = parts["crf"].optional(lambda place: self.chain(place, len(head.weight)))
        label = parts["label"].optional(lambda place: self.label(place, stack.output_size))
        return Tagger(task, words, letters, speller, stack, head, crf, label)

    def speller(self, entry: Entry, width: int) -> Stack:
        found = self.layers.stack(entry, width)
        if len(found.layers[-1].directions) != 2 or found.delay:
            entry.refuse("does not read words in both directions")
        return found

    def forecaster(self, task: str, entry: Entry) -> Forecaster:
        parts = entry.open("targets", "quantiles", "season", "stack", "pooling", "decoder", "head")
        targets = parts["targets"].whole(1, self.sources.widest)
        season = parts["season"].whole(0)
        quantiles = tuple(one.number(0, 1) for one in parts["quantiles"].each(1, MOST_QUANTILES))
        if 0.5 not in quantiles or list(quantiles) != sorted(set(quantiles)):
            parts["quantiles"].refuse("are not in rising order with 0.5 among them")
        stack = self.layers.stack(parts["stack"])
        if stack.input_size < targets:
            parts["stack"].refuse(f"reads a width of {stack.input_size}, and there are {targets} targets")
        pooling = self.pooling(parts["pooling"], stack.output_size)
        decoder = self.layers.stack(parts["decoder"], streams=True)
        if decoder.input_size < stack.output_size + 1:
            parts["decoder"].refuse(f"reads a width of {decoder.input_size}, not {stack.output_size + 1} at least")
        head = self.linear(parts["head"], decoder.output_size, targets * len(quantiles))
        return Forecaster(task, targets, quantiles, season, stack, pooling, decoder, head)

    def translator(self, task: str, entry: Entry) -> Translator:
        names = ("source", "target", "encoder", "decoder", "keys", "mix", "head", "beam_size", "longest")
        parts = entry.open(*names)
        source, target = self.side(parts["source"]), self.side(parts["target"])
        encoder = self.layers.stack(parts["encoder"], source.weight.shape[1])
        decoder = self.layers.stack(parts["decoder"], target.weight.shape[1], streams=True)
        read, wrote = encoder.output_size, decoder.output_size
        if any(len(sizes) > 1 for sizes in _states(encoder)) or _states(encoder) != _states(decoder):
            parts["decoder"].refuse("has states of other sizes than the encoder, from whose states it starts")
        if (parts["keys"].value is None) != (parts["mix"].value is None):
            parts["mix"].refuse("and `keys` belong together")
        keys = parts["keys"].optional(lambda place: self.linear(place, read, wrote))
        mix = parts["mix"].optional(lambda place: self.linear(place, wrote + read, wrote))
        head = self.linear(parts["head"], wrote, len(target.weight))
        limits = parts["beam_size"].whole(1, WIDEST_BEAM), parts["longest"].whole(1, LONGEST_SEARCH)
        return Translator(task, source, target, encoder, decoder, keys, mix, head, *limits)

    def side(self, entry: Entry) -> Embedding:
        found = self.embedding(entry)
        if len(found.weight) < RESERVED:
            entry.refuse(f"has {len(found.weight)} tokens, fewer than padding, start and end")
        return found

    def chain(self, entry: Entry, tags: int) -> Chain:
        parts = entry.open("start", "transitions", "end")
        shaped = self.sources.shaped
        return Chain(
            shaped(parts["start"], (tags,)), shaped(parts["transitions"], (tags, tags)), shaped(parts["end"], (tags,))
        )

    def label(self, entry: Entry, width: int) -> SentenceLabel:
        parts = entry.open("pooling", "head")
        return SentenceLabel(self.pooling(parts["pooling"], width), self.linear(parts["head"], width))

    def pooling(self, entry: Entry, width: int) -> Pooling:
        parts = entry.open("kind", "bidirectional", "inner", "outer")
        kind, both = parts["kind"].text(POOLINGS), parts["bidirectional"].flag()
        if both and width % 2:
            parts["bidirectional"].refuse(f"is true, and a width of {width} has no two halves")
        if kind != "attention":
            for name in ("inner", "outer"):
                if parts[name].value is not None:
                    parts[name].refuse(f"is given, and the pooling {kind!r} has none")
            return Pooling(kind, both, None, None)
        inner, outer = self.linear(parts["inner"], width, width), self.linear(parts["outer"], width, 1)
        return Pooling(kind, both, inner, outer)

    def embedding(self, entry: Entry) -> Embedding:
        parts = entry.open("weight", "ngrams")
        weight = self.sources.matrix(parts["weight"])
        ngrams = parts["ngrams"].optional(lambda place: self.sources.matrix(place, weight.shape[1]))
        return Embedding(weight, ngrams)

    def linear(self, entry: Entry, columns: int, rows: int | None = None) -> Linear:
        parts = entry.open("weight", "bias")
        weight = self.sources.matrix(parts["weight"], columns, rows)
        return Linear(weight, parts["bias"].optional(lambda place: self.sources.shaped(place, (len(weight),))))


def _reads(member: Member) -> str:
    """What a member reads, in words."""
    if member.embedding is None:
        return f"{member.stack.input_size} numbers per step"
    return f"{len(member.embedding.weight)} tokens{'' if member.embedding.ngrams is None else ' with n-grams'}"


def _states(stack: Stack) -> list[set[tuple[int, ...]]]:
    """The sizes of the states of each layer, in either direction."""
    return [{one.state_sizes for one in layer.directions} for layer in stack.layers]
