"""Trials in flight: as many as an executor has room for, with results in order of proposal.

A trial's cells are jobs of the executor; everything else, what is proposed, judged and recorded, is
done here, one thing at a time. A trial ends only when all that were proposed before it have ended.
So what a search method has seen when it proposes depends on how many are in flight, and not on
which of them is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from ablate.experiment.cell_elsewhere import Kept, Steps
from ablate.experiment.claims import Claim, Claims
from ablate.experiment.executors.executor import Executor, Job
from ablate.experiment.trial import Runner
from ablate.study.definition import Study
from ablate.study.methods import METHODS

WAITING = 2
"""Trials begun for each slot of an executor, where a proposal depends on no result: while some wait
for an earlier one to end, the slots have work."""

PATIENCE = 0.5
"""Longest time in seconds before the number of slots is looked at again: nodes come and go."""


class Flight:
    """One trial in flight."""

    def __init__(self, claim: Claim, steps: Steps[str | None], executor: Executor) -> None:
        self.claim, self._steps, self._executor = claim, steps, executor
        self.futures: list[Future[Any]] = []  # of its jobs; none while it waits for its turn
        self._kept: dict[int, Kept] = {}  # jobs whose results are still to be taken, by place
        self.ended = False
        self.reason: str | None = None  # why the trial failed, if it did
        self._go(lambda: next(self._steps))

    def proceed(self) -> None:
        """Go on with the results of its jobs, or because it is its turn."""
        self.take()
        futures, self.futures, self._kept = self.futures, [], {}
        errors = [error for future in futures if (error := _error(future)) is not None]
        if errors:
            for future in futures:
                future.cancel()
            self._go(lambda: self._steps.throw(errors[0]))
        else:
            results = [future.result() for future in futures] or None
            self._go(lambda: self._steps.send(results))

    def _go(self, step: Callable[[], Sequence[Job | Kept] | None]) -> None:
        try:
            jobs = step()
        except StopIteration as end:
            self.ended, self.reason = True, end.value
        else:
            for place, job in enumerate(jobs or ()):
                self.futures.append(self._submitted(place, job))
                self.take()  # in this process it is done already, and the next takes long

    def _submitted(self, place: int, job: Job | Kept) -> Future[Any]:
        if not isinstance(job, Kept):
            return self._executor.submit(job)
        self._kept[place] = job
        return self._executor.submit(job.job)

    def take(self) -> None:
        """Take the results that are to be taken at once, and hold them no longer."""
        for place, kept in list(self._kept.items()):
            future = self.futures[place]
            if future.done() and not future.cancelled() and future.exception() is None:
                del self._kept[place]
                kept.take(future.result())
                self.futures[place] = Future()
                self.futures[place].set_result(None)

    def ready(self) -> bool:
        """Whether its jobs are done, or one has failed."""
        done = [future for future in self.futures if future.done()]
        return bool(done) and (len(done) == len(self.futures) or any(map(_error, done)))


def _error(future: Future[Any]) -> BaseException | None:
    return future.exception() if future.done() and not future.cancelled() else None


class Flights:
    """Runs the trials that one worker claims, to their end."""

    def __init__(self, study: Study, claims: Claims, runner: Runner, executor: Executor) -> None:
        self._claims, self._runner, self._executor = claims, runner, executor
        learns = METHODS[study.method].learns or bool(study.rungs)
        self._each = 1 if executor.here or learns else WAITING
        self._flights: list[Flight] = []  # in order of proposal

    def __iter__(self) -> Iterator[tuple[int, str | None]]:
        """Each trial that ended, with the reason if it failed."""
        while True:
            self._fill()
            if self._flights:
                yield from self._ended()
                self._wait()
            elif not self._claims.wait():
                return

    def _fill(self) -> None:
        """Begin trials as long as there is room."""
        while len(self._flights) < self._each * self._executor.slots:
            mine = {flight.claim.entry.number for flight in self._flights}
            claim = self._claims.next(mine)
            if claim is None:
                return
            self._flights.append(Flight(claim, self._runner.run(claim), self._executor))

    def _ended(self) -> Iterator[tuple[int, str | None]]:
        """End the first trial, if it is ready to; then there is room for one more."""
        first = self._flights[0]
        if not first.futures and not first.ended:
            first.proceed()
        if first.ended:
            self._claims.finish(first.claim)
            del self._flights[0]
            yield first.claim.entry.number, first.reason

    def _wait(self) -> None:
        """Wait for a job to be done, and go on with the trials whose jobs are."""
        if not all(flight.futures for flight in self._flights[:1]):
            return
        jobs = [future for flight in self._flights for future in flight.futures]
        if not any(flight.ready() for flight in self._flights):
            wait([future for future in jobs if not future.done()], PATIENCE, FIRST_COMPLETED)
        for flight in self._flights:
            flight.take()
            if flight.ready():
                flight.proceed()
