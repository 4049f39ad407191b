"""Small programs around exported models: they read standard input and write predictions, one example per line."""

from __future__ import annotations

from collections.abc import Iterable

from unspool.data.vocabulary import Listed
from unspool.errors import ArgumentError
from unspool.exchange.c.forecast_program import write_forecast
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.reading import (
    ALL_FINITE,
    LONGEST_NUMBERS,
    LONGEST_TEXT,
    READ_COUNT,
    READ_IDS,
    READ_LINE,
    READ_NUMBERS,
)
from unspool.exchange.c.source import Source, indent
from unspool.exchange.c.statements import leave_if, out_of_memory, take_floats, take_workspace
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator

INCLUDES = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
#: The most tokens that programs write, and the highest seed.
MOST_TOKENS, HIGHEST_SEED = 1_000_000_000, 2**32 - 1


def write_program(source: Source, network: Network | Stack, interface: Interface, tokenized: bool) -> None:
    """Add `main`.

    Args:
        source: The file, with all functions of the model.
        network: The model.
        interface: Vocabulary, scales and labels.
        tokenized: Whether the file has the model's tokenizer; without it, texts are ids.
    """
    if source.separate:
        raise ArgumentError.of("separate", True, "leaves no weights for a program", "Leave out `main` or this")
    match network:
        case Language():
            _write_generator(source, network, interface, tokenized)
        case Pooled():
            limit = LONGEST_NUMBERS if network.members[0].embedding is None else LONGEST_TEXT
            _write_lines(source, _pooled(source, network, interface, tokenized), limit)
        case Tagger() if tokenized:
            _write_lines(source, _tagger(source, network, interface))
        case Translator():
            _write_lines(source, _translator(source, network, tokenized))
        case Forecaster():
            write_forecast(source, network, interface)
        case Stack():
            _write_lines(source, _stack(source), LONGEST_NUMBERS)
        case _:
            raise ArgumentError.of("main", True, "needs the tagger's words", "Give `interface`, or leave out `main`")


def _write_lines(source: Source, body: Iterable[str], limit: int = LONGEST_TEXT) -> None:
    """A program that treats each line of its input, which is `line` of `size` bytes, with a fresh state `s`."""
    source.function(READ_LINE.replace("@limit", str(limit)))
    loop = [
        "static @_state s;",
        "for (char *line = @_read_line(); line != NULL; line = @_read_line()) {",
        "    const size_t size = strlen(line);",
        "    @_init(&s);",
        *(f"    {line}" for line in body),
        "    free(line);",
        "}",
        "return @_failed;",
    ]
    source.function(f"int main(void)\n{{\n{indent(loop)}}}\n")


def _write_ids(source: Source, tokenized: bool, tokens: int) -> list[str]:
    """Statements that set `ids` and `steps`, by the tokenizer or from a line of ids below `tokens`."""
    take = ["int32_t *const ids = malloc((size + 1) * sizeof *ids);", *out_of_memory("ids == NULL")]
    if tokenized:
        return [*take, "const size_t steps = @_encode(line, size, ids, size + 1);"]
    source.function(READ_IDS)
    return [
        *take,
        f"const size_t steps = @_read_ids(line, ids, size + 1, {tokens});",
        *leave_if("steps == SIZE_MAX", f"has what is not an id from 0 to {tokens - 1}", ("line", "ids")),
    ]


def _read_line_of_numbers(source: Source, inputs: str) -> list[str]:
    """Statements that set `x` and `steps`."""
    source.function(READ_NUMBERS)
    source.function(ALL_FINITE)
    return [
        *take_floats(source, "x", "size"),
        "const size_t found = @_read_numbers(line, x, size + 1);",
        *leave_if("found == SIZE_MAX", "has what is no finite number", ("line", "x")),
        f"const size_t steps = found / {inputs};",
    ]


def _pooled(source: Source, network: Pooled, interface: Interface, tokenized: bool) -> list[str]:
    member = network.members[0]
    whole = any("size_t @_workspace" in one for one in source.public)
    room = ["free(workspace);"] if whole else []
    show = _show(source, network, interface, len(member.head.weight))
    y = f"float y[{len(member.head.weight)}];"
    extra = ", workspace" if whole else ""
    if member.embedding is None:
        lines = _read_line_of_numbers(source, str(member.stack.input_size))
        lines += take_workspace(source, "steps") if whole else []
        taken = ("line", "x", *(["workspace"] if whole else []))
        check = leave_if(f"!@_all_finite(y, {len(member.head.weight)})", "gives no finite number", taken)
        return [*lines, y, f"@_run(&s, x, steps, y{extra});", *check, *show, "free(x);", *room]
    if member.embedding.ngrams is not None:
        return _spelled(source, whole, tokenized, y, show)
    lines = _write_ids(source, tokenized, len(member.embedding.weight))
    lines += take_workspace(source, "steps") if whole else []
    return [*lines, y, f"@_run(&s, ids, steps, y{extra});", *show, "free(ids);", *room]


def _spelled(source: Source, whole: bool, tokenized: bool, y: str, show: list[str]) -> list[str]:
    """Words with their n-grams: at most three per byte and word end."""
    if not tokenized:
        raise ArgumentError.of("main", True, "needs the words of a model with subwords", "Give `interface`")
    loop = [
        "size_t place = 0, first, count;",
        "int32_t id;",
        "while (@_next_token(line, size, &place, &id, &first, &count)) {",
    ]
    if not whole:
        step = [
            "uint32_t hashes[3080];",
            "@_step(&s, id, hashes, @_hash_ngrams(line + first, count, hashes, 3080));",
        ]
        return [y, *loop, *(f"    {line}" for line in step), "}", "@_output(&s, y);", *show]
    return [
        "int32_t *const ids = malloc((size + 1) * sizeof *ids);",
        "size_t *const counts = malloc((size + 1) * sizeof *counts), steps = 0, used = 0;",
        "uint32_t *const hashes = malloc((size + 1) * 12 * sizeof *hashes);",
        *out_of_memory("ids == NULL || counts == NULL || hashes == NULL"),
        *loop,
        "    ids[steps] = id;",
        "    counts[steps] = @_hash_ngrams(line + first, count, hashes + used, (size + 1) * 12 - used);",
        "    used += counts[steps++];",
        "}",
        *take_workspace(source, "steps"),
        y,
        "@_run(&s, ids, hashes, counts, steps, y, workspace);",
        *show,
        *("free(ids);", "free(counts);", "free(hashes);", "free(workspace);"),
    ]


def _show(source: Source, network: Pooled, interface: Interface, outputs: int) -> list[str]:
    """Print the most likely label and its probability, each label with its own, or numbers."""
    if network.output == "none":
        return [
            f"for (int j = 0; j < {outputs}; j++)",
            f'    printf("%.9g%s", (double)y[j], j == {outputs - 1} ? "\\n" : "\\t");',
        ]
    _write_labels(source, interface.labels, outputs)
    if network.output == "sigmoid":
        shown = f'printf("%s %.6f%s", @_labels[j], (double)y[j], j == {outputs - 1} ? "\\n" : "\\t");'
        return [f"for (int j = 0; j < {outputs}; j++)", f"    {shown}"]
    return [f"const int best = @_largest(y, {outputs});", 'printf("%s\\t%.6f\\n", @_labels[best], (double)y[best]);']


def _write_labels(source: Source, labels: tuple[str, ...], count: int) -> None:
    named = labels if len(labels) == count else tuple(map(str, range(count)))
    lines = "".join(f"    {c_string(label)},\n" for label in named)
    source.function(f"static const char *const @_labels[] = {{\n{lines}}};\n")


def c_string(text: str) -> str:
    """A literal; what is not plain ASCII is written in three octal digits, which nothing after them can change.

    Example:
        >>> c_string('say "é"')
        '"say \\\\"\\\\303\\\\251\\\\""'
    """
    letters = []
    for byte in text.encode("utf-8", "replace"):
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?@'
        letters.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(letters)}"'


def _tagger(source: Source, network: Tagger, interface: Interface) -> list[str]:
    _write_labels(source, interface.labels, len(network.head.weight))
    lines = [
        "int32_t *const ids = malloc((size + 1) * 3 * sizeof *ids), *const tags = ids + size + 1;",
        "size_t *const counts = malloc((size + 1) * sizeof *counts);",
        *out_of_memory("ids == NULL || counts == NULL"),
        "int32_t *const letters = tags + size + 1;",
        "size_t place = 0, first, count, steps = 0, used = 0, longest = 0;",
        "int32_t id;",
        "while (@_next_token(line, size, &place, &id, &first, &count)) {",
        "    ids[steps] = id;",
    ]
    spelled = network.speller is not None
    if spelled:
        lines += ["    counts[steps] = @_letter_encode(line + first, count, letters + used, size + 1 - used);"]
        lines += ["    used += counts[steps];", "    longest = counts[steps] > longest ? counts[steps] : longest;"]
    lines += ["    steps++;", "}"]
    lines += [] if spelled else ["(void)letters;", "(void)used;", "(void)longest;"]
    lines += take_workspace(source, "steps, longest" if spelled else "steps")
    label = f"float label[{len(network.label.head.weight)}];" if network.label else ""
    arguments = "ids, letters, counts, steps, tags" if spelled else "ids, steps, tags"
    lines += [label] if label else []
    return [
        *lines,
        f"@_run(&s, {arguments}{', label' if label else ''}, workspace);",
        "for (size_t t = 0; t < steps; t++)",
        '    printf("%s%s", t == 0 ? "" : " ", @_labels[tags[t]]);',
        'printf("\\n");',
        *("free(ids);", "free(counts);", "free(workspace);"),
    ]


def _translator(source: Source, network: Translator, tokenized: bool) -> list[str]:
    show = ["size_t bytes;", "const char *const text = @_target_token_text(target[t], &bytes);"]
    show += ["if (t > 0 && @@_TARGET_SPACED)", '    printf(" ");', "fwrite(text, 1, bytes, stdout);"]
    plain = ['printf("%s%ld", t == 0 ? "" : " ", (long)target[t]);']
    return [
        *_write_ids(source, tokenized, len(network.source.weight)),
        *take_workspace(source, "steps"),
        "int32_t target[@@_LONGEST];",
        "const size_t written = @_run(&s, ids, steps, target, @@_LONGEST, workspace);",
        "for (size_t t = 0; t < written; t++) {",
        *(f"    {line}" for line in (show if tokenized else plain)),
        "}",
        'printf("\\n");',
        *("free(ids);", "free(workspace);"),
    ]


def _stack(source: Source) -> list[str]:
    """Each line is a sequence of vectors; its outputs are printed, one step after the other."""
    whole = any("size_t @_workspace" in one for one in source.public)
    taken = ("line", "x", "y", *(["workspace"] if whole else []))
    return [
        *_read_line_of_numbers(source, "@@_INPUTS"),
        *take_floats(source, "y", "@_room(0, steps, @@_OUTPUTS)"),
        *(take_workspace(source, "steps") if whole else []),
        f"@_run(&s, x, steps, y{', workspace' if whole else ''});",
        *leave_if("!@_all_finite(y, steps * @@_OUTPUTS)", "gives what is no finite number", taken),
        "for (size_t i = 0; i < steps * @@_OUTPUTS; i++)",
        '    printf("%s%.9g", i == 0 ? "" : " ", (double)y[i]);',
        'printf("\\n");',
        *("free(x);", "free(y);"),
        *(["free(workspace);"] if whole else []),
    ]


def _write_generator(source: Source, network: Language, interface: Interface, tokenized: bool) -> None:
    listed = isinstance(interface.vocabulary, Listed)
    tokens = network.embedding.weight.shape[0]
    for text in (READ_COUNT, READ_NUMBERS, *([] if tokenized else [READ_IDS])):
        source.function(text)
    first = "@_encode(prompt, strlen(prompt), ids, sizeof ids / sizeof ids[0])"
    first = first if tokenized else f"@_read_ids(prompt, ids, sizeof ids / sizeof ids[0], {tokens})"
    spaced = ["if (@@_SPACED)", '    printf(" ");'] if tokenized else []
    show = [
        "size_t size;",
        "const char *const text = @_token_text(token, &size);",
        "fwrite(text, 1, size, stdout);",
        *spaced,
    ]
    body = [
        "static @_state s;",
        f"static float logits[{tokens}];",
        "static int32_t ids[65536];",
        "uint32_t count = 500, chosen = 0;",
        "float temperature = 0.8f;",
        f"if (argc > 5 || (argc > 1 && !@_read_count(argv[1], {MOST_TOKENS}u, &count))",
        "    || (argc > 2 && (@_read_numbers(argv[2], &temperature, 1) != 1 || temperature < 0.0f))",
        f"    || (argc > 3 && !@_read_count(argv[3], {HIGHEST_SEED}u, &chosen))) {{",
        '    fprintf(stderr, "usage: %s [COUNT [TEMPERATURE [SEED [PROMPT]]]]\\n"',
        f'            "COUNT: 0 to {MOST_TOKENS}; TEMPERATURE: a number from 0 on; SEED: 0 to {HIGHEST_SEED}\\n",',
        "            argv[0]);",
        "    return 2;",
        "}",
        f"const char *const prompt = argc > 4 ? argv[4] : {c_string(chr(10)) if tokenized else c_string('0')};",
        "uint32_t seed = chosen * 2654435761u + 1u;",
        "seed = seed == 0 ? 1u : seed;",
        f"size_t given = {first};",
        *([] if tokenized else _refuse_prompt(tokens)),
        "given = given < sizeof ids / sizeof ids[0] ? given : sizeof ids / sizeof ids[0];",
        "@_init(&s);",
        "@_run(&s, ids, given, logits);",
        "for (uint32_t i = 0; i < count; i++) {",
        *(["    logits[0] = @_as_float(0xff800000u); /* the unknown token is never written */"] if listed else []),
        "    @_probabilities(logits, temperature);",
        "    const int32_t token = @_sample(logits, &seed);",
        *(f"    {line}" for line in (show if tokenized else ['printf("%ld ", (long)token);'])),
        "    @_step(&s, token, logits);",
        "}",
        'printf("\\n");',
        "return 0;",
    ]
    source.function(f"int main(int argc, char **argv)\n{{\n{indent(body)}}}\n")


def _refuse_prompt(tokens: int) -> list[str]:
    said = f"the prompt has what is not an id from 0 to {tokens - 1}"
    return ["if (given == SIZE_MAX) {", f'    fprintf(stderr, "{said}\\n");', "    return 2;", "}"]
