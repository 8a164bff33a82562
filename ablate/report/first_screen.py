"""StudyResults -> the facts that stand below the answer: what was run, when, and how to run it."""

from __future__ import annotations

from datetime import datetime

from ablate.results import StudyResults


def facts(results: StudyResults) -> list[tuple[str, str]]:
    """(name, value) of budget, samples, extractor, date, duration, device and command."""
    tags = results.tags
    known = [
        ("budget", results.budget),
        ("samples", _samples(results)),
        ("extractor", _extractor(results)),
        ("date", tags.get("began", "")[:10]),
        ("duration", _duration(results)),
        ("device", tags.get("ablate.device", tags.get("device", ""))),
        ("run it again", command(results)),
    ]
    return [(name, value) for name, value in known if value]


def command(results: StudyResults) -> str:
    """The command that runs the study and then writes this report."""
    what = f"{results.name} --budget {results.budget}"
    return f"ablate study {what} && ablate report {what}"


def _samples(results: StudyResults) -> str:
    """256 × 3 seeds"""
    protocol = results.protocols.get(results.objectives[0].metric, {})
    samples = results.spec.get("samples", protocol.get("samples"))
    seeds = len(results.spec.get("seeds", ())) or max(
        (len(t.cells) for t in results.trials), default=0
    )
    if not samples or not seeds:
        return ""
    return f"{samples:,} × {seeds} seed{'s' * (seeds > 1)}"


def _extractor(results: StudyResults) -> str:
    return str(results.protocols.get(results.objectives[0].metric, {}).get("extractor", ""))


LONG_PAUSE = 0.5
"""Of a study's duration: with more of it without any cell, the study was interrupted."""


def _duration(results: StudyResults) -> str:
    """4 min, 2 h 5 min; of a study that was interrupted: 13 min of work in 2 h 5 min."""
    ends = results.tags.get("began", ""), results.tags.get("ended", "")
    if not all(ends):
        return ""
    first, last = (datetime.strptime(each, "%Y-%m-%d %H:%M:%S UTC") for each in ends)
    seconds = (last - first).total_seconds()
    if 0 < results.at_work < LONG_PAUSE * seconds:
        return f"{_spoken(results.at_work)} of work in {_spoken(seconds)}"
    return _spoken(seconds)


def _spoken(duration: float) -> str:
    hours, rest = divmod(int(duration), 3600)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
