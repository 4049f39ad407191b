"""From a network, or from layers alone, to C: the one place that knows all kinds."""

from __future__ import annotations

from unspool.data.vocabulary import Vocabulary
from unspool.errors import ArgumentTypeError
from unspool.exchange.c.bare import write_bare
from unspool.exchange.c.forecaster import write_forecaster
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.language import write_language
from unspool.exchange.c.pooled import reads_ngrams, write_pooled
from unspool.exchange.c.programs import INCLUDES, write_program
from unspool.exchange.c.source import Source, Written
from unspool.exchange.c.tagger import write_tagger
from unspool.exchange.c.tokens import write_ngrams, write_tokenizer
from unspool.exchange.c.translator import write_translator
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator

#: The id of a translator's first token; those before it stand for no text.
FIRST = 3
KINDS = {
    Stack: "Layers",
    Language: "A language model",
    Pooled: "A model of whole sequences",
    Tagger: "A tagger",
    Forecaster: "A forecaster",
    Translator: "A translator",
}


def write_c(
    network: Network | Stack,
    name: str = "model",
    *,
    interface: Interface | None = None,
    int8: bool = False,
    separate: bool = False,
    main: bool = False,
    header: str | None = None,
) -> Written:
    """A network as C99. The same network gives the same text.

    Args:
        network: The model, or layers alone.
        name: What all names start with; what is no identifier is made one.
        interface: Vocabulary, scales and labels.
        int8: Whether to keep matrices in int8 with a scale per row; all else stays float32.
        separate: Whether weights are not in the C file but in bytes of their own, which `init` takes.
        main: Whether to add a program that reads standard input and writes predictions, or generates text.
        header: The file name of the header, which the C file includes; None: the prefix of all names, and `.h`.

    Returns:
        The texts of the C file and of its header, and the weights if they are separate.

    Example:
        write_c(network, "weather").code
    """
    source, interface = Source.new(name, int8, separate, header), interface or Interface()
    _write_kind(source, network, interface)
    tokenized = _write_tokenizers(source, network, interface)
    if main:
        write_program(source, network, interface, tokenized)
        source.includes = INCLUDES
    return source.finish(f"{KINDS[type(network)]} in C99, written by unspool. {_needs(interface, tokenized)}")


def _needs(interface: Interface, tokenized: bool) -> str:
    """What the reader of the file must know."""
    if interface.vocabulary is None or tokenized:
        return "It needs nothing but libm's sqrtf."
    kind = interface.vocabulary.kind
    return (
        f"The tokenizer ({kind}) is not part of it: it reads and writes ids, which the run's vocabulary.json explains."
    )


def _write_tokenizers(source: Source, network: Network | Stack, interface: Interface) -> bool:
    """Write the tokenizers of the interface; whether all that the network needs are there."""
    first = FIRST if isinstance(network, Translator) else 0
    found = write_tokenizer(source, interface.vocabulary, "", interface.lowercase, first)
    source.constants |= {"SPACED": int(_is_spaced(interface.vocabulary))} if found else {}
    if isinstance(network, Tagger) and network.speller is not None:
        found = write_tokenizer(source, interface.letters, "letter_") and found
    if isinstance(network, Translator):
        found = write_tokenizer(source, interface.target, "target_", False, first) and found
        source.constants |= {"TARGET_SPACED": int(_is_spaced(interface.target))} if found else {}
    if isinstance(network, Pooled) and reads_ngrams(network):
        write_ngrams(source)
    return found


def has_tokenizer(network: Network | Stack, interface: Interface) -> bool:
    """Whether the exported C reads and writes texts; without a tokenizer, ids stand for them."""
    return _write_tokenizers(Source.new("probe"), network, interface)


def _is_spaced(vocabulary: Vocabulary | None) -> bool:
    """Whether there are spaces between tokens."""
    return vocabulary is not None and vocabulary.kind == "word"


def _write_kind(source: Source, network: Network | Stack, interface: Interface) -> None:
    match network:
        case Stack():
            write_bare(source, network)
        case Language():
            write_language(source, network)
        case Pooled():
            write_pooled(source, network, interface)
        case Tagger():
            write_tagger(source, network, interface)
        case Forecaster():
            write_forecaster(source, network, interface)
        case Translator():
            write_translator(source, network)
        case _:
            raise ArgumentTypeError.of("network", network, "is no network", "Give one of unspool.runtime.network")
