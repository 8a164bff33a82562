"""`answers = "sigma by init"`: the values of a knob at each value of another."""

from __future__ import annotations

from ablate.core.asked import Asked
from ablate.report.answers.knob import contrasted
from ablate.report.answers.wording import at, best_at, listed
from ablate.report.names import knob_name
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Value


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """Whether the best value depends on the other knob, then the contrast at each of its values."""
    knob, other = wanted.knobs
    winners: dict[Value, Value] = {}
    parts: list[str] = []
    for place in best_at(results, other):
        among = [trial for trial in contenders(results) if trial.params.get(other) == place]
        best = best_at(results, knob, among)
        if len(best) > 1:
            winners[place] = next(iter(best))
            parts += [
                f"With {at(other, place)}: {each}" for each in contrasted(results, knob, best)
            ]
    if not winners:
        return [f"There are no two values of {knob_name(knob)} to contrast."]
    if len(winners) == 1:
        return parts
    named = listed([f"{at(knob, best)} with {at(other, place)}" for place, best in winners.items()])
    same = len(set(winners.values())) == 1
    ends = "is the same for every" if same else "depends on the"
    return [
        f"The {knob_name(knob)} with the best value {ends} {knob_name(other)}: {named}.",
        *parts,
    ]
