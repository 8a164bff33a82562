"""Proposing trials, storing their results, the importance of knobs: the one package that knows
Optuna."""

import optuna

from ablate.search.entries import Entry, best, finished, searched, summary
from ablate.search.importance import importance
from ablate.search.ledger import Ledger, make_tables
from ablate.search.proposals import from_unit, learns, propose

optuna.logging.set_verbosity(optuna.logging.ERROR)

__all__ = [
    "Entry",
    "Ledger",
    "best",
    "finished",
    "from_unit",
    "importance",
    "learns",
    "make_tables",
    "propose",
    "searched",
    "summary",
]
