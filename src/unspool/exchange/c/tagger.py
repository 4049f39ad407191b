"""Taggers in C: words in, a tag for each out, by the Viterbi algorithm where tags depend on each other."""

from __future__ import annotations

import numpy as np

from unspool.exchange.c.interface import Interface
from unspool.exchange.c.pooling import write_pooling
from unspool.exchange.c.source import REFUSED, Source, refuse_unknown
from unspool.exchange.c.stack import StackCode, write_stack
from unspool.runtime.network import Array, Chain, Embedding, Pooling, Tagger

#: The score of what is not allowed: far below any that occurs, and finite.
FORBIDDEN = np.float32(-1e30)
ENDS = Pooling("last", True, None, None)


def write_tagger(source: Source, network: Tagger, interface: Interface) -> None:
    """Write `workspace` and `run`: the tags of a sentence, and its label if the model has one.

    Args:
        source: The file.
        network: The model.
        interface: Which tag may follow which.
    """
    stack = write_stack(source, "stack", network.stack, whole=True)
    words, tags = source.embedding("words", network.words), source.linear("head", network.head)
    width, count = network.stack.input_size, tags.outputs
    source.constants |= {"TAGS": count, "UNITS": network.stack.output_size}
    source.fields.append(f"{stack.state} stack;")
    source.start.append("@_stack_start(w, &s->stack);")
    lines = [
        *refuse_unknown("words", "steps", words.table.rows),
        *(_refuse_letters(network.letters) if network.letters and network.speller else []),
        f"float *const x = workspace, *const scores = x + steps * {width}, *const from = scores + steps * {count};",
        f"float *const rest = from + steps * {count};",
        *(["size_t first = 0;"] if network.speller else []),
        "for (size_t t = 0; t < steps; t++) {",
        *(f"    {line}" for line in words.lines("words[t]", f"(x + t * {width})")),
    ]
    spelling, spell_needs = _spell(source, network, words.width)
    lines += [*(f"    {line}" for line in spelling), "}"]
    lines += ["const float *const h = @_stack_run(w, &s->stack, x, steps, rest);"]
    lines += ["for (size_t t = 0; t < steps; t++) {"]
    lines += [f"    {line}" for line in tags.lines(f"(h + t * {stack.of.output_size})", f"(scores + t * {count})")]
    lines += ["}", *_label(source, network, stack), *_decode(source, network.crf, count, interface), "return 0;"]
    letters = ", const int32_t *letters, const size_t *counts" if network.speller else ""
    label = ", float *label" if network.label else ""
    longest = ", size_t letters" if network.speller else ""
    needs = [("steps", width + 2 * count), *stack.workspace_terms("steps"), *spell_needs]
    about = ", with so many letters in the longest word" if network.speller else ""
    source.export_workspace(f"size_t steps{longest}", [needs], about)
    source.export(
        "The tags of a sentence. Afterwards the workspace holds the inputs, then the scores (steps, tags) of all tags."
        + (" `letters` are those of all words, one word after the other, `counts` of each." if network.speller else "")
        + (" `label` gets the probabilities of the sentence's labels." if network.label else "")
        + f" Returns {REFUSED}.",
        f"int @_run(@_state *s, const int32_t *words{letters}, size_t steps, int32_t *tags{label}, float *workspace)",
        lines,
    )


def _refuse_letters(letters: Embedding) -> list[str]:
    """Statements that look at the letters of all words before any of them is read."""
    return [
        "size_t every = 0;",
        "for (size_t t = 0; t < steps; t++)",
        "    every += counts[t];",
        *refuse_unknown("letters", "every", len(letters.weight)),
    ]


def _spell(source: Source, network: Tagger, offset: int) -> tuple[list[str], list[tuple[str, int]]]:
    """Statements that add the states of the speller to a word's vector, and the floats that they need."""
    if network.speller is None or network.letters is None:
        return [], []
    code = write_stack(source, "speller", network.speller, whole=True)
    letters = source.embedding("letters", network.letters)
    write_pooling(source, "ends", ENDS, network.speller.output_size)
    width, whole = letters.width, network.stack.input_size
    lines = [
        "@_speller_state speller;",
        "@_ends ends;",
        "@_speller_start(w, &speller);",
        "@_ends_start(&ends);",
        "for (size_t i = 0; i < counts[t]; i++) {",
        *(f"    {line}" for line in letters.lines("letters[first + i]", f"(rest + i * {width})")),
        "}",
        f"const float *const spelled = @_speller_run(w, &speller, rest, counts[t], rest + counts[t] * {width});",
        "for (size_t i = 0; i < counts[t]; i++)",
        f"    @_ends_add(w, &ends, spelled + i * {network.speller.output_size});",
        f"@_ends_finish(&ends, x + t * {whole} + {offset});",
        "first += counts[t];",
    ]
    return lines, [("letters", width), *code.workspace_terms("letters")]


def _label(source: Source, network: Tagger, stack: StackCode) -> list[str]:
    if network.label is None:
        return []
    width = stack.of.output_size
    write_pooling(source, "label_pool", network.label.pooling, width)
    head = source.linear("label_head", network.label.head)
    source.constants["LABELS"] = head.outputs
    return [
        "@_label_pool pool;",
        f"float pooled[{width}];",
        "@_label_pool_start(&pool);",
        "for (size_t t = 0; t < steps; t++)",
        f"    @_label_pool_add(w, &pool, h + t * {width});",
        "@_label_pool_finish(&pool, pooled);",
        *head.lines("pooled", "label"),
        f"@_softmax(label, {head.outputs});",
    ]


def _decode(source: Source, chain: Chain | None, tags: int, interface: Interface) -> list[str]:
    if chain is None:
        return [
            "(void)from;",
            "for (size_t t = 0; t < steps; t++)",
            f"    tags[t] = (int32_t)@_largest(scores + t * {tags}, {tags});",
        ]
    start, transitions, end = (
        source.weights.vector(name, values)
        for name, values in zip(
            ("chain_start", "chain_transitions", "chain_end"), _scores(chain, interface), strict=True
        )
    )
    return [
        "if (steps == 0)",
        "    return 0;",
        f"float best[{tags}], next[{tags}];",
        f"for (int j = 0; j < {tags}; j++)",
        f"    best[j] = {start}[j] + scores[j];",
        "for (size_t t = 1; t < steps; t++) {",
        f"    for (int j = 0; j < {tags}; j++) {{",
        "        int origin = 0;",
        f"        for (int i = 1; i < {tags}; i++)",
        f"            if (best[i] + {transitions}[i * {tags} + j] > best[origin] + {transitions}[origin * {tags} + j])",
        "                origin = i;",
        f"        next[j] = best[origin] + {transitions}[origin * {tags} + j] + scores[t * {tags} + (size_t)j];",
        f"        from[t * {tags} + (size_t)j] = (float)origin;",
        "    }",
        f"    @_copy(best, next, {tags});",
        "}",
        f"@_add(best, {end}, {tags});",
        f"int32_t tag = (int32_t)@_largest(best, {tags});",
        "for (size_t t = steps; t-- > 0;) {",
        "    tags[t] = tag;",
        f"    tag = t > 0 ? (int32_t)from[t * {tags} + (size_t)tag] : tag;",
        "}",
    ]


def _scores(chain: Chain, interface: Interface) -> list[Array]:
    """Start, transitions and end, with what is not allowed far below all else."""
    parts = [chain.start, chain.transitions, chain.end]
    if interface.allowed is None:
        return parts
    allowed = interface.allowed
    may = (allowed[-2, :-2], allowed[:-2, :-2], allowed[:-2, -1])
    return [np.where(one, part, FORBIDDEN) for one, part in zip(may, parts, strict=True)]
