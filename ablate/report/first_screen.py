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
        ("duration", _duration(tags.get("began", ""), tags.get("ended", ""))),
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


def _duration(began: str, ended: str) -> str:
    """4 min, 2 h 5 min; from the first start of the study to its end, pauses among them."""
    if not began or not ended:
        return ""
    first, last = (datetime.strptime(each, "%Y-%m-%d %H:%M:%S UTC") for each in (began, ended))
    hours, rest = divmod(int((last - first).total_seconds()), 3600)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
