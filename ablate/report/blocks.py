"""What report sections are made of: tables, figures, pictures and text, before any format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

from ablate.report.names import Item, number
from ablate.report.shapes import Shape

Row = tuple[Item, ...]


class Column(NamedTuple):
    """The head of a column."""

    key: str  # in CSV
    label: str  # for readers
    left: bool = False  # words are set to the left, numbers to the right
    digits: int = 0  # significant ones of bare numbers for readers; 0: as usual
    least: float = 0.0  # readers see smaller numbers as "< this"; 0: no bound
    most: float = 0.0  # and larger ones as "> this"

    def shown(self, item: Item) -> Item:
        """The item as tables for readers have it; CSV has all digits."""
        if isinstance(item, int | float):
            if self.least and item < self.least:
                return f"< {number(self.least)}"
            if self.most and item > self.most:
                return f"> {number(self.most)}"
        if self.digits and isinstance(item, int | float):
            return number(item, self.digits)
        return item


def words(key: str, label: str | None = None) -> Column:
    """A column of words; the label is the key unless it is given."""
    return Column(key, key if label is None else label, left=True)


def numbers(key: str, label: str | None = None, digits: int = 0) -> Column:
    """A column of numbers; the label is the key unless it is given."""
    return Column(key, key if label is None else label, digits=digits)


def probabilities(key: str, label: str) -> Column:
    """A column of probabilities by a law: none is 0 or 1."""
    return Column(key, label, digits=3, least=0.001, most=0.999)


def p_values(key: str, label: str) -> Column:
    """A column of p-values: none is 0, but Holm's correction makes them 1."""
    return Column(key, label, digits=2, least=1e-4)


class Table(NamedTuple):
    """A numbered table on the page, also written as CSV and LaTeX."""

    name: str  # of its files
    caption: str
    header: list[Column]
    rows: list[Row]
    apart: Sequence[Row] = ()  # not ranked: a label across the leading columns, then the last ones
    bold: int | None = None  # index of the row in bold
    grouped: bool = False  # rows with the same first item form a group, its first row in bold


class Details(NamedTuple):
    """A long table that the page shows collapsed and without a number; Markdown links its CSV."""

    summary: str
    table: Table


class Attachment(NamedTuple):
    """A table that is written as CSV and LaTeX and not shown."""

    table: Table


class Figure(NamedTuple):
    """A numbered figure on the page, also written as SVG and PNG."""

    name: str  # of its files
    caption: str
    data: Shape


class Picture(NamedTuple):
    """An image that a cell stored."""

    kind: str
    role: str  # of its trial: best, oracle or worst
    caption: str
    png: bytes | None  # None: the store has none
    trial: int | None = None  # whose it is
    label: str = ""  # beside it, in a compact group

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        return f"{self.kind}-{self.role}"


class Pictures(NamedTuple):
    """Pictures of one kind below their own heading, side by side or as strips across the page.

    compact: strips of which each has its label at the left, and no caption.
    """

    title: str
    pictures: list[Picture]
    strips: bool = False
    compact: bool = False


class Legend(NamedTuple):
    """What the symbols of the knobs mean, and which knobs were kept fixed."""

    meanings: Mapping[str, str]  # knob -> what it is
    fixed: Mapping[str, str]  # knob -> its one value
    partial: frozenset[str]  # the fixed knobs that not all trials have
    leaks: bool  # whether a trial starts from training images

    @property
    def everywhere(self) -> dict[str, str]:
        """The fixed knobs that all trials have."""
        return {knob: value for knob, value in self.fixed.items() if knob not in self.partial}

    @property
    def somewhere(self) -> dict[str, str]:
        """The fixed knobs that some trials do not have."""
        return {knob: value for knob, value in self.fixed.items() if knob in self.partial}


class Paragraph(NamedTuple):
    """Plain text."""

    text: str


Block = Table | Details | Attachment | Figure | Pictures | Legend | Paragraph
BLOCKS: tuple[type, ...] = get_args(Block)


def visible(block: Block) -> bool:
    """Whether there is anything to show: empty tables are written, but not shown."""
    if isinstance(block, Attachment):
        return False
    if isinstance(block, Details):
        return bool(block.table.rows)
    if isinstance(block, Table):
        return bool(block.rows or block.apart)
    if isinstance(block, Legend):
        return bool(block.meanings or block.fixed)
    return True


def tables_in(blocks: Iterable[Block]) -> list[Table]:
    """All tables, shown or not."""
    opened = [b.table if isinstance(b, Details | Attachment) else b for b in blocks]
    return [block for block in opened if isinstance(block, Table)]


def figures_in(blocks: Iterable[Block]) -> list[Figure]:
    """All figures."""
    return [block for block in blocks if isinstance(block, Figure)]


def pictures_in(blocks: Iterable[Block]) -> list[Picture]:
    """All pictures, also those that the store does not have."""
    return [each for block in blocks if isinstance(block, Pictures) for each in block.pictures]
