"""An estimator of few formulas, whose searches compile soon: parts, placement, a limit."""

from typing import Any

import numpy as np

import jaxroof as jr
from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.records import Number


@jr.record
class Place:
    """A machine."""

    pace: Number = jr.quantity("B/s", "Rate of work.")
    road: Number = jr.quantity("B/s", "Rate of the link.")
    share: Number = jr.quantity("1", "Share of the link in use.", default=1.0)
    delay: Number = jr.quantity("s", "Latency of a message.", zero=True, default=1e-3)
    room: Number = jr.quantity("B", "Memory.", default=1e9)
    spare: Number = jr.quantity("1", "What nothing depends on.", default=1.0)


@jr.record
class Cut:
    """A plan."""

    parts: Number = jr.quantity("1", "Parts of the work.", whole=True)
    rounds: Number = jr.quantity("1", "Rounds of messages.", whole=True)
    near: Number = jr.quantity("1", "Neighbours.", whole=True)


@jr.record
class Job:
    """What is asked."""

    amount: Number = jr.quantity("B", "Bytes of work.", default=1e9)
    count: Number = jr.quantity("1", "Size of the job.", whole=True, default=16.0)
    place: Place = Place(pace=1e9, road=1e9)
    plan: Cut | None = None


@jr.record
class Times:
    """Results."""

    time: Number = jr.quantity("s", "Time.")
    memory: Number = jr.quantity("B", "Memory.")
    rate: Number = jr.quantity("1/s", "Jobs a second.", better="higher")
    bent: Number = jr.quantity("s", "A time that is not convex.")


def work(job: Job, recipe: None, *, parts: Number) -> Any:
    return job.amount * (1.0 / parts + 0.002 * parts) / job.place.pace


def links(job: Job, recipe: None, *, rounds: Number, near: Number) -> Any:
    sent = job.amount * (0.5 / rounds + 0.03 / near) / (job.place.road * job.place.share)
    return sent + rounds * near * job.place.delay


def step(job: Job, recipe: None, *, work: Any, links: Any) -> Times:
    time = larger(links, work) + 0.3 * work + 0.1 * links
    plan = job.plan
    memory = job.amount * (1.0 / plan.parts + 0.1 / plan.rounds)
    return Times(time=time, memory=memory, rate=1.0 / time, bent=smaller(time, 3.0 * work))


def cuts(job: Job, recipe: None) -> jr.Candidates:
    count = int(job.count)
    every = np.stack(np.meshgrid(*[np.arange(1, count)] * 2, [1, 2, 4, 8])).reshape(3, -1)
    return jr.Candidates(dict(zip(("parts", "rounds", "near"), every, strict=True)), {})


OWN = jr.Estimator(
    step=step,
    inputs=Job,
    plan=Cut,
    parts={"work": work, "links": links},
    candidates=cuts,
    structural=("count",),
    objective="time",
    need="memory",
    limit=lambda job: job.place.room,
    placement=("near",),
    name="own",
)
