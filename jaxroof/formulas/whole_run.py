"""A whole training run: failures, saves, restarts, spares, goodput, power, money.

All numbers may be arrays and broadcast; seconds, watts, joules and dollars. A time is that of the
whole job unless it says otherwise; a rate of failures is a number a second.

Source: docs/models/whole_run.md, sections 2 to 10.
"""

from typing import NamedTuple

from jaxroof.dual import Dual, slope_of, value_of
from jaxroof.formulas.arithmetic import exp, expm1, larger, log, log1p, smaller, sqrt
from jaxroof.lazy_jax import namespace
from jaxroof.records import Number

HOUR, DAY, YEAR = 3600.0, 86400.0, 365.25 * 86400.0  # [s]
LEAST = 1e-9  # of shares whose limit at 0 has an infinite slope, or is 0 / 0
LEAST_LOAD = 1e-12  # of nodes in repair
MOST = 100.0  # of exponents of runs that would never end
NEWTON = 6  # steps that find the best interval to the last digits
NEARBY = 1e-4  # of the difference that takes the slope in spares

# ---- Size of the run ----------------------------------------------------------------------------


def run_steps(tokens: Number, batch: Number, sequence: Number) -> Number:
    """Return the optimizer steps of a run: tokens / (batch sequence)."""
    return tokens / (batch * sequence)


class Ramp(NamedTuple):
    """A run whose batch grows linearly in the tokens seen."""

    steps: Number
    time: Number  # [s]


def ramp(
    tokens: Number,
    batch: Number,
    sequence: Number,
    ramp_tokens: Number,
    first_batch: Number,
    step_time: Number,
    first_step_time: Number,
) -> Ramp:
    """Return the steps and the time of a run whose batch ramps up to ``batch``.

    mean batch = b (e^l - 1) / l, l = ln(b_first / b); the time of a step is affine in the batch
    """
    shrink = log(first_batch / batch) - LEAST
    mean = batch * expm1(shrink) / shrink
    steps = ramp_tokens / (sequence * mean)
    each = (step_time - first_step_time) / (batch - first_batch + LEAST * batch)
    rest = (tokens - ramp_tokens) / (sequence * batch)
    time = (step_time - each * batch) * steps + each * ramp_tokens / sequence + rest * step_time
    return Ramp(steps + rest, time)


# ---- Failures -----------------------------------------------------------------------------------


def failure_rate(
    gpus: Number,
    chip_mtbf: Number,
    node_gpus: Number,
    node_rate: Number = 0.0,
    switch_gpus: Number = 64.0,
    switch_rate: Number = 0.0,
    software_rate: Number = 0.0,
) -> Number:
    """Return the interruptions of a job a second: those of its chips, nodes and switches add."""
    parts = gpus / node_gpus * node_rate + gpus / switch_gpus * switch_rate
    return gpus / chip_mtbf + parts + software_rate


def straggler_slowdown(gpus: Number, rate: Number, found: Number, slows: Number) -> Number:
    """Return by what slow chips stretch a step until they are found.

    1 + s (1 - exp(-gpus rate found))
    """
    return 1.0 + slows * -expm1(-gpus * rate * found)


# ---- Saves and restarts -------------------------------------------------------------------------


class Saves(NamedTuple):
    """The seconds of a save, and of reading one back."""

    state: Number  # [B]
    write: Number
    stop: Number  # of training
    floor: Number  # a save must be written before the next begins
    read: Number


def saves(
    parameters: Number,
    bytes_per_parameter: Number,
    writers: Number,
    copy_rate: Number,
    store_rate: Number,
    writer_rate: Number,
    hidden: Number,
    barrier: Number,
    memory_share: Number = 0.0,
    memory_rate: Number = 2e9,
) -> Saves:
    """Return what a save takes: its copy to the host, and its way to the store.

    stop = barrier + state / (writers copy) + (1 - hidden) write; write = state / store
    """
    state = parameters * bytes_per_parameter
    write = state / smaller(store_rate, writers * writer_rate)
    stored = (1.0 - memory_share) * write
    return Saves(
        state=state,
        write=write,
        stop=barrier + state / (writers * copy_rate) + (1.0 - hidden) * write,
        floor=stored,
        read=memory_share * state / (writers * memory_rate) + stored,
    )


def detection(error_detect: Number, hang_share: Number, hang_timeout: Number) -> Number:
    """Return the mean time until a failure is noticed; some hang until a timeout."""
    return (1.0 - hang_share) * error_detect + hang_share * hang_timeout


# ---- Spares -------------------------------------------------------------------------------------


class Spares(NamedTuple):
    """What a job waits for nodes that are in repair."""

    load: Number  # nodes in repair at a time, mean
    short: Number  # share of failures that find no spare
    wait: Number  # a failure, mean


def spares(
    spare_nodes: Number, failures: Number, repair_share: Number, repair_time: Number
) -> Spares:
    """Return how often no spare is left, and the mean wait of a failure: Erlang's loss system.

    wait = r short T / (spares + 1), load = r failures T, short = B(spares, load)
    """
    load = larger(repair_share * failures * repair_time, LEAST_LOAD)
    near = smaller(load, spare_nodes + 25.0 * sqrt(spare_nodes + 1.0) + 25.0)
    short = larger(erlang_loss(spare_nodes, near), 1.0 - spare_nodes / load)
    return Spares(load, short, repair_share * short * repair_time / (spare_nodes + 1.0))


def erlang_loss(servers: Number, load: Number) -> Number:
    """Return the share of calls that Erlang's system loses; servers need not be whole.

    B(s, a) = a^s e^-a / (Gamma(s + 1) Q(s + 1, a)), dB / da = B (s / a - 1 + B)
    """
    if namespace(servers, load) is not namespace():
        from jaxroof.formulas.traced import erlang_loss as traced

        return traced(servers, load)
    if not isinstance(servers, Dual) and not isinstance(load, Dual):
        return _loss(servers, load)
    s, a = value_of(servers), value_of(load)
    loss = _loss(s, a)
    small = NEARBY * (s + 1.0)
    in_servers = (_loss(s + small, a) - _loss(larger(s - small, 0.0), a)) / (
        s + small - larger(s - small, 0.0)
    )
    in_load = loss * (s / a - 1.0 + loss)
    return Dual(loss, in_servers * slope_of(servers) + in_load * slope_of(load))  # type: ignore


def _loss(servers: Number, load: Number) -> Number:
    from scipy import special  # not above: most questions need none of it

    more = servers + 1.0
    weight = exp(servers * log(load) - load - special.gammaln(more))
    return weight / special.gammaincc(more, load)


def available(nodes: Number, spare_nodes: Number, load: Number) -> Number:
    """Return how often all nodes would be there if repairs went on without regard to the job.

    I_up(nodes, spares + 1), up = nodes / (nodes + load): for printing, it has no slopes.
    """
    from scipy import special

    found: Number = special.betainc(nodes, spare_nodes + 1.0, nodes / (nodes + load))
    return found


# ---- Best interval and goodput ------------------------------------------------------------------


def best_share(cost: Number) -> Number:
    """Return the best work between saves, in mean times between failures.

    1 - x = exp(-x - d), d = save / mtbf; dx / dd = (1 - x) / x (Daly 2006, without his expansion)
    """
    d = larger(cost, LEAST)
    root = sqrt(2.0 * d)
    x = root / (1.0 + root / 3.0)
    for _ in range(NEWTON):
        short = expm1(-x - d)
        x = x + (x + short) / short
    return x


class Segment(NamedTuple):
    """The expected seconds from a save to the next, and where they go."""

    work: Number
    saved: Number
    lost: Number  # work done again
    restarts: Number

    @property
    def time(self) -> Number:
        """Return all of them."""
        return self.work + self.saved + self.lost + self.restarts


def segment(interval: Number, save: Number, restart: Number, mtbf: Number) -> Segment:
    """Return the expected seconds of a segment of work under exponential failures.

    interval + save + lost + restarts = mtbf exp(restart / mtbf) (exp(a) - 1),
    a = (interval + save) / mtbf
    """
    again = mtbf * expm1(smaller((interval + save) / mtbf, MOST))
    lost = larger(again - interval - save, 0.0)
    return Segment(interval, save, lost, again * expm1(smaller(restart / mtbf, MOST)))


class Slopes(NamedTuple):
    """By how many per cent the wall time moves with one per cent of each."""

    save: Number
    restart: Number
    mtbf: Number


def wall_slopes(interval: Number, save: Number, restart: Number, mtbf: Number) -> Slopes:
    """Return the elasticities of the wall time at the best interval, or at a fixed one.

    d ln wall / d ln mtbf = 1 - restart / mtbf - a / (1 - exp(-a)); nothing else interrupts
    """
    a = (interval + save) / mtbf
    left = -expm1(-a)
    return Slopes(save / mtbf / left, restart / mtbf, 1.0 - restart / mtbf - a / left)


# ---- Power --------------------------------------------------------------------------------------


def chip_watts(tdp: Number, share: Number, limit: Number = 1.0) -> Number:
    """Return what one chip draws at a share of its rated power [W], under a limit of that share."""
    return tdp * smaller(share, limit)


def mean_watts(busy_watts: Number, waiting_watts: Number, busy: Number, waiting: Number) -> Number:
    """Return the mean of a step that is busy for some seconds and waits for others [W]."""
    return (busy_watts * busy + waiting_watts * waiting) / (busy + waiting)


def site_watts(
    chip: Number,
    nodes: Number,
    node_gpus: Number,
    host: Number,
    switch: Number,
    fans: Number,
    conversion: Number,
    pue: Number,
) -> Number:
    """Return what nodes draw at the meter, given the watts of a chip [W].

    n ((g chip + host) (1 + fans) + switch) / conversion pue
    """
    node = (node_gpus * chip + host) * (1.0 + fans) + switch
    return nodes * node / conversion * pue


def rate_at_limit(limit: Number, limits: Number, rates: Number) -> Number:
    """Return the share of the rate that a power limit leaves: linear in a table of one's own."""
    found: Number = namespace(limit).interp(limit, limits, rates)
    return found


# ---- Money --------------------------------------------------------------------------------------


def annuity(years: Number, interest: Number) -> Number:
    """Return what a dollar costs a year that is paid back over some years [1/year].

    y / (1 - (1 + y)^-years)
    """
    y = larger(interest, LEAST)
    return y / -expm1(-years * log1p(y))


def capital_rate(price: Number, years: Number, interest: Number, residual: Number) -> Number:
    """Return what a second of a chip costs that was bought [USD/s].

    price (1 - residual (1 + y)^-years) annuity / year
    """
    y = larger(interest, LEAST)
    left = residual * exp(-years * log1p(y))
    return price * (1.0 - left) * annuity(years, interest) / YEAR
