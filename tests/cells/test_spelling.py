"""Cells as text: names with options, back and forth, and texts that are refused without being run."""

from __future__ import annotations

import keyword
import unicodedata
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.variants import USERS, VARIANTS, Minimal, ThreeStages, cell_of

from unspool.cells import CATALOGUE, GRU, LSTM, Cell, DeepTransition, Elman, Jordan, Leaky, Residual, Skip, Symbol
from unspool.cells.catalogue import cell_name, find_cell, name_cells
from unspool.cells.document import dump
from unspool.cells.saved import cells_document, load_cells
from unspool.cells.spelling import LONGEST, names_file, read_spelling, write_spelling
from unspool.errors import ArgumentError, UnknownNameError

BUILT_IN: dict[str, Cell] = {
    "elman": Elman(),
    "elman-relu": Elman("relu"),
    "elman(activation=identity)": Elman("identity"),
    "linear": find_cell("linear"),
    "jordan(output_size=2, output_activation=tanh)": Jordan(2, output_activation="tanh"),
    "lstm": LSTM(),
    "lstm(projection=32)": LSTM(32),
    "lstm-open": find_cell("lstm-open"),
    "gru": GRU(),
    "gru-reset-after": find_cell("gru-reset-after"),
    "deep-transition": DeepTransition(),
    "deep-transition(depth=3)": DeepTransition(3),
    "deep-transition(depth=1, activation=relu)": DeepTransition(1, "relu"),
    "residual(activation=sigmoid)": Residual("sigmoid"),
    "skip(span=5)": Skip(5),
    "leaky(dt=0.01, alpha=-2.5)": Leaky(0.01, -2.5),
    "leaky(dt=1e-05)": Leaky(1e-5),
}


@pytest.mark.parametrize(("text", "cell"), BUILT_IN.items(), ids=BUILT_IN)
def test_a_text_and_its_cell(text: str, cell: Cell) -> None:
    found = find_cell(text)
    assert type(found) is type(cell)
    assert vars(found) == vars(cell)
    assert dump(found.equations()) == dump(cell.equations())
    assert cell_name(cell) == text


def test_every_name_of_the_catalogue_is_canonical() -> None:
    assert [cell_name(make()) for make in CATALOGUE.values()] == list(CATALOGUE)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("LSTM", "lstm"),
        ("  Gru ( ) ", "gru"),
        ("Deep-Transition( depth = 3 , )", "deep-transition(depth=3)"),
        ("deep-transition(depth=2)", "deep-transition"),
        ("elman(activation='relu')", "elman-relu"),
        ('elman(activation="relu")', "elman-relu"),
        ("skip(activation=relu,\n span=3)", "skip(span=3, activation=relu)"),
        ("leaky(alpha=1, dt=+0.2)", "leaky(dt=0.2)"),
        ("lstm(projection=None)", "lstm"),
        ("lstm(projection=0x10)", "lstm(projection=16)"),
    ],
)
def test_other_ways_to_write_it(text: str, canonical: str) -> None:
    assert cell_name(find_cell(text)) == canonical


def test_a_users_cell_is_named_by_its_class() -> None:
    assert [cell_name(kind()) for kind in USERS] == [kind.__name__ for kind in USERS]
    saved = load_cells(cells_document({"mine": Minimal()}))["mine"]
    assert cell_name(saved) == "Minimal"


class Deep(DeepTransition):
    """A user's heir of a built-in cell."""


def test_an_heir_of_a_built_in_cell_is_a_users_cell() -> None:
    assert cell_name(Deep(depth=3)) == "Deep"


REFUSED: dict[str, tuple[str, type[ArgumentError], str]] = {
    "unknown": (
        "deep-transtion(depth=3)",
        UnknownNameError,
        r"`cell` \(='deep-transtion'\) is not known. Did you mean 'deep-transition'\?",
    ),
    "option": (
        "deep-transition(dept=3)",
        ArgumentError,
        r"unknown option 'dept'. Did you mean 'depth'\? deep-transition takes depth, activation\.",
    ),
    "no options": ("gru(depth=3)", ArgumentError, r"unknown option 'depth'. gru takes no options\."),
    "settled": ("elman-relu(activation=tanh)", ArgumentError, "elman-relu takes no options"),
    "type": (
        "deep-transition(depth=two)",
        ArgumentError,
        r"`cell` \(='deep-transition\(depth=two\)'\) cannot be made: `depth` \(='two'\) is of type str",
    ),
    "fraction": ("deep-transition(depth=2.5)", ArgumentError, r"`depth` \(=2.5\) is of type float"),
    "bool": ("skip(span=True)", ArgumentError, r"`span` \(=True\)"),
    "value": ("leaky(dt=-1)", ArgumentError, r"`dt` \(=-1\) is not a positive number"),
    "word": ("elman(activation=tahn)", ArgumentError, "Did you mean 'tanh'"),
    "position": ("deep-transition(3)", ArgumentError, "an option without a name, 3"),
    "list": ("deep-transition(depth=[3])", ArgumentError, "option depth that is neither a number, a word"),
    "sum": ("deep-transition(depth=1+2)", ArgumentError, "option depth that is neither"),
    "call": ("deep-transition(depth=print(3))", ArgumentError, "option depth that is neither"),
    "complex": ("leaky(dt=1j)", ArgumentError, "option dt that is neither"),
    "bytes": ("elman(activation=b'relu')", ArgumentError, "option activation that is neither"),
    "tuple": ("skip(span=(2, 3))", ArgumentError, "option span that is neither"),
    "f-string": ("elman(activation=f'relu')", ArgumentError, "option activation that is neither"),
    "twice": ("skip(span=2, span=3)", ArgumentError, "has the option span twice"),
    "stars": ("skip(**{'span': 2})", ArgumentError, r"has \*\* among its options"),
    "open": ("skip(span=2", ArgumentError, "is not a name, nor a name with options in parentheses"),
    "closed": ("skip span=2)", ArgumentError, "is not a name, nor"),
    "half": ("skip(span=)", ArgumentError, "options that cannot be read"),
    "a null": ("skip(span=2\0)", ArgumentError, "options that cannot be read"),
    "two calls": ("skip(span=2)(span=3)", ArgumentError, "more than options in its parentheses"),
    "a sum of calls": ("skip(span=2) + skip(span=3)", ArgumentError, "more than options in its parentheses"),
    "nested": ("skip(span=" + "(" * 300 + "2" + ")" * 300 + ")", ArgumentError, "options that cannot be read"),
    "signs": ("skip(span=" + "-" * 800 + "2)", ArgumentError, "option span that is neither"),
    "empty": ("", ArgumentError, "is not a name, nor"),
    "no name": ("(span=2)", ArgumentError, "is not a name, nor"),
    "long": ("skip(span=" + "9" * LONGEST + ")", ArgumentError, "is not a name, nor"),
    "a file": ("mine.py:Minimal", ArgumentError, "is a file, and only training reads a user's file"),
}


@pytest.mark.parametrize(("text", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, kind: type[ArgumentError], message: str) -> None:
    with pytest.raises(kind, match=message):
        find_cell(text)


def test_nothing_in_a_text_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("skip(span=print('ran'))", "skip(span=[print('ran') for _ in '1'][0])", "print('ran')"):
        with pytest.raises(ArgumentError):
            find_cell(text)
    assert capsys.readouterr().out == ""


def test_reading_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ArgumentError, match="cannot be made"):
            find_cell(r"elman(activation='\d')")


values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.from_regex(r"[a-z]\w{0,8}", fullmatch=True).filter(str.isidentifier), values, max_size=3))
def test_what_is_written_is_read_back(options: dict[str, int | float | bool | str | None]) -> None:
    options = {name: value for name, value in options.items() if not keyword.iskeyword(name)}
    text = write_spelling("some-cell", options)
    if len(text) > LONGEST:
        return
    name, read = read_spelling(text)
    assert name == "some-cell"
    assert read == {_normal(option): value for option, value in options.items()}
    assert [type(value) for value in read.values()] == [type(value) for value in options.values()]


def _normal(name: str) -> str:
    """Python's parser gives identifiers in their normal form."""
    return unicodedata.normalize("NFKC", name)


@settings(deadline=None, derandomize=True, max_examples=500)
@given(st.text(max_size=30) | st.text(alphabet="gruskip(=,)1'span.-* \\\n#", max_size=30))
def test_any_text_is_a_cell_or_an_argument_error(text: str) -> None:
    try:
        found = find_cell(text)
    except ArgumentError:
        return
    assert vars(find_cell(cell_name(found))) == vars(found)


@pytest.mark.parametrize("text", ["mine.py", "mine.py:Minimal", "a/b c.py:Mine(depth=3)", r"C:\cells\mine.py:Mine"])
def test_a_file_is_known_by_its_suffix(text: str) -> None:
    assert names_file(text)


@pytest.mark.parametrize("text", ["lstm", "deep-transition(depth=3)", "mine:Minimal", "mine.pyc", ".py", "mine.py.txt"])
def test_a_name_is_no_file(text: str) -> None:
    assert not names_file(text)


# Names for the cells of a model


def lag(factor: float) -> Cell:
    """A cell of a class Mine; two of them differ in their equations and not in their names."""

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        return factor * h + self.linear("h", x)

    return cell_of(step)


def leads_back(cells: list[Cell]) -> tuple[list[str], dict[str, Cell]]:
    """The names and the users' cells, after a check that a config and a document with them give the same cells."""
    names, own = name_cells(cells)
    loaded = load_cells(cells_document(own))
    for name, cell in zip(names, cells, strict=True):
        assert dump(find_cell(name, loaded).equations()) == dump(cell.equations())
    return names, own


def test_built_in_cells_need_no_document() -> None:
    cells: list[Cell] = [LSTM(), DeepTransition(3), LSTM(projection=2)]
    assert leads_back(cells) == (["lstm", "deep-transition(depth=3)", "lstm(projection=2)"], {})


def test_users_cells_of_one_name_are_numbered_and_equal_ones_share_it() -> None:
    cells = [lag(0.5), lag(0.25), GRU(), lag(0.5), Minimal()]
    names, own = leads_back(cells)
    assert names == ["Mine", "Mine-2", "gru", "Mine", "Minimal"]
    assert list(own) == ["Mine", "Mine-2", "Minimal"]


def test_a_users_cell_with_a_name_of_the_catalogue_is_numbered() -> None:
    mine: Cell = type("LSTM", (Cell,), {"step": lambda self, x, h: h + self.linear("h", x)})()
    assert leads_back([mine, LSTM()])[0] == ["LSTM-2", "lstm"]


def test_cells_that_differ_in_the_roles_of_gates_are_two() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        return h + self.linear("z", x)

    assert name_cells([cell_of(step), cell_of(step, keeps={"z": 1})])[0] == ["Mine", "Mine-2"]


def test_own_cells_are_found_first_and_suggested() -> None:
    own: dict[str, Cell] = {"Minimal": Minimal(), "lstm": ThreeStages()}
    assert find_cell("Minimal", own) is own["Minimal"]
    assert find_cell("lstm", own) is own["lstm"]
    assert isinstance(find_cell("LSTM", own), LSTM)
    with pytest.raises(UnknownNameError, match="Did you mean 'Minimal'"):
        find_cell("minimall", own)


def test_every_variant_has_a_name() -> None:
    leads_back(list(VARIANTS.values()))
