"""`answers = "sigma by init"`: the values of a knob at each value of another."""

from __future__ import annotations

from itertools import combinations

from ablate.core.asked import Asked
from ablate.report.answers.knob import contrasted
from ablate.report.answers.wording import at, best_at, first_metric, gap, listed, sign_of
from ablate.report.names import knob_name
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Trial, Value


def sentences(results: StudyResults, wanted: Asked) -> list[str]:
    """Whether the best value depends on the other knob, then the contrast at each of its values."""
    knob, other = wanted.knobs
    bests: dict[Value, dict[Value, Trial]] = {}
    for place in best_at(results, other):
        among = [trial for trial in contenders(results) if trial.params.get(other) == place]
        best = best_at(results, knob, among)
        if len(best) > 1:
            bests[place] = best
    if not bests:
        return [f"There are no two values of {knob_name(knob)} to contrast."]
    parts = [
        f"With {at(other, place)}: {each[0].lower() + each[1:]}"
        for place, best in bests.items()
        for each in contrasted(results, knob, best)
    ]
    if len(bests) == 1:
        return parts
    winners = {place: next(iter(best)) for place, best in bests.items()}
    named = listed([f"{at(knob, best)} with {at(other, place)}" for place, best in winners.items()])
    if len(set(winners.values())) == 1:
        how = f"is the same for every {knob_name(other)}"
    elif _depends(results, bests, winners):
        how = f"depends on the {knob_name(other)}"
    else:
        how = f"is not shown to depend on the {knob_name(other)}, although the best means differ"
    return [f"The {knob_name(knob)} with the best value {how}: {named}.", *parts]


def _depends(
    results: StudyResults,
    bests: dict[Value, dict[Value, Trial]],
    winners: dict[Value, Value],
) -> bool:
    """Whether two places have different best values, each clearly better than the other's there."""
    return any(
        _better(results, bests[one], winners[one], winners[other])
        and _better(results, bests[other], winners[other], winners[one])
        for one, other in combinations(bests, 2)
        if winners[one] != winners[other]
    )


def _better(results: StudyResults, best: dict[Value, Trial], value: Value, than: Value) -> bool:
    found = gap(results, best[value], best[than]) if than in best else None
    sign = sign_of(results, first_metric(results))
    return found is not None and found.clear and sign * found.value < 0
