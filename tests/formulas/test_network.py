"""Collectives of the study of 2024 take its time; a ring, a tree, an exchange take any tiers."""

from typing import Any

import golden_rows as golden
import numpy as np
import pytest
from every_collective import COLLECTIVES

import jaxroof as jr
from jaxroof.catalog.system import network as network_of
from jaxroof.catalog.system import tiers
from jaxroof.estimators.published.step import send_share
from jaxroof.estimators.training import rates
from jaxroof.formulas import network, schedule

KINDS = [  # golden kind, ours, rows in the file, rtol
    ("allgather", network.study_gather, 687, 1e-12),
    ("reducescatter", network.study_gather, 660, 1e-12),
    ("allreduce", network.study_all_reduce, 687, 1e-12),
    ("broadcast", network.study_broadcast, 687, 1e-12),
    ("reduce", network.study_broadcast, 660, 1e-12),
    ("p2p", network.study_send, 666, 1e-12),
]


def time(collective: network.Collective, rows: golden.Rows, group: np.ndarray) -> np.ndarray:
    """Return the seconds of one collective at every row."""
    message = rows["volume_GB"] * golden.GIGA
    channel = network_of(golden.system(rows))
    return np.asarray(collective(message, group, rows["nv_group"], channel))


@pytest.mark.parametrize(("kind", "collective", "count", "rtol"), KINDS)
def test_collective_times(
    kind: str, collective: network.Collective, count: int, rtol: float
) -> None:
    """Every kind at every size, group and placement, empty and lonely ones among them."""
    rows = golden.read("comm_times", kind=kind)
    assert golden.size(rows) == count
    golden.agree(time(collective, rows, rows["group"]), rows["time_s"], rtol, says=kind, rows=rows)


LINKS = network.Network((network.Tier(2.0, 2.0, 0.5), network.Tier(0.0, 1.0, 1.0)))
ROWS = [  # collective, message [B], group, fast, expected [s], rtol, source
    (network.study_gather, 8.0, 4.0, 2.0, 5.0, 1e-12, "section 4, rule 7, by hand: 3 + 1 + 1")
]


@pytest.mark.parametrize(
    ("collective", "message", "group", "fast", "expected", "rtol", "source"), ROWS
)
def test_collective_times_of_other_sources(
    collective: network.Collective,
    message: float,
    group: float,
    fast: float,
    expected: float,
    rtol: float,
    source: str,
) -> None:
    """What the published implementation lacks has rows of its own, each with its source."""
    assert float(collective(message, group, fast, LINKS)) == pytest.approx(expected, rel=rtol)


def test_every_collective_has_golden_rows() -> None:
    """A new collective needs a row above, or a kind in a file of tests/golden."""
    checked = {row[1] for row in KINDS} | {row[0] for row in ROWS}
    assert set(COLLECTIVES) == checked


def test_every_kind_of_collective_is_checked() -> None:
    """The kinds above are all there are."""
    rows = golden.read("comm_times")
    assert set(rows["kind"].tolist()) == {kind for kind, *_ in KINDS}
    assert golden.size(rows) == sum(count for _, _, count, _ in KINDS) == 4047


SYNCHRONISATIONS = [  # overlap, rows in the file, rtol
    (1, 181, 1e-12),  # all but one layer's collective hides behind a layer
    (0, 29, 1e-12),  # none does: r K (sheet section 7, not an option of the search)
]


@pytest.mark.parametrize(("overlap", "count", "rtol"), SYNCHRONISATIONS)
def test_data_parallel_synchronisation(overlap: int, count: int, rtol: float) -> None:
    """Weights are gathered behind forward, gradients scattered behind backward."""
    rows = golden.read("dp_pp_comm", which="dp", overlap=overlap)
    assert golden.size(rows) == count
    layers = rows["n_layers"]
    ways = [
        (network.study_gather, "t_layer_fwd", "t_fwd"),
        (network.study_gather, "t_layer_bwd", "t_bwd"),
    ]
    total = np.zeros(count)
    for collective, layer, column in ways:
        each = time(collective, rows, rows["group"])
        exposed = schedule.exposed_sync(each, rows[layer], layers) if overlap else each * layers
        golden.agree(exposed, rows[column], rtol, says=column, rows=rows)
        total += np.asarray(exposed)
    golden.agree(total, rows["t"], rtol, says="t", rows=rows)


SENDS = [  # overlap, rows in the file, share of the sends that shows, rtol
    (0, 193, 1.0, 1e-12),
    (1, 17, 0.0, 1e-12),  # hidden altogether (sheet section 8, not an option of the search)
]


@pytest.mark.parametrize(("overlap", "count", "shown", "rtol"), SENDS)
def test_pipeline_sends(overlap: int, count: int, shown: float, rtol: float) -> None:
    """Each microbatch is sent once in each direction, at the cost of an average link."""
    rows = golden.read("dp_pp_comm", which="pp", overlap=overlap)
    assert golden.size(rows) == count
    link = time(network.study_send, rows, np.full(count, 2.0))
    share = np.asarray(send_share(rows["group"], rows["nv_group"]))
    sends = shown * rows["n_micro"] * share * link
    golden.agree(sends, rows["t_fwd"], rtol, says="t_fwd", rows=rows)
    golden.agree(sends, rows["t_bwd"], rtol, says="t_bwd", rows=rows)
    golden.agree(2.0 * sends, rows["t"], rtol, says="t", rows=rows)


def test_a_tier_that_no_group_needs_changes_nothing() -> None:
    """A middle tier as wide as the one below it is not there, whatever its rate."""
    random = np.random.default_rng(0)
    group, inner = (2.0 ** random.integers(0, most, 500) for most in (12, 6))
    domain, message = 2.0 ** random.integers(0, 7, 500), 10.0 ** random.uniform(3, 11, 500)
    near, far = network.Tier(domain, 4e11, 2e-6), network.Tier(0.0, 5e10, 7e-6, 2.0)
    two = network.Network((near, far), 1e-5)
    three = network.Network((near, network.Tier(domain, 1.0, 7e-6), far), 1e-5)
    few, all_of = network.placed(two, group, inner), network.placed(three, group, inner)
    for kind in (network.gather, network.all_reduce, network.send):
        assert (kind(message, all_of, three) == kind(message, few, two)).all()
    shares = (few, two, 1.03), (all_of, three, 1.03)
    messages = (message, message / 3.0), (message, message, message / 3.0)
    plain, with_third = (network.all_to_all(m, *s) for m, s in zip(messages, shares, strict=True))
    assert (with_third == plain).all()


def test_a_ring_over_three_tiers() -> None:
    """16 ranks on nodes of 2 and racks of 8: the rack's links bind; hops 16 - 8, 8 - 2, 2 - 1."""
    tiers = (
        network.Tier(2.0, 64.0, 1.0),
        network.Tier(8.0, 1.0, 10.0),
        network.Tier(0.0, 8.0, 0.5),
    )
    links = network.Network(tiers, 3.0)
    time = float(network.gather(32.0, network.placed(links, 16.0), links))
    assert time == pytest.approx(3.0 + 8.0 + 60.0 + 0.5 + 30.0 / 2.0, rel=1e-5)


def test_a_step_of_training_takes_any_number_of_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With racks between nodes and network: as wide as a node, nothing changes; fast, it helps."""
    plan = {"tp": 16.0, "cp": 2.0, "pp": 2.0, "dp": 8.0, "mb": 1.0}
    asked = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 64, **plan}
    times = [float(jr.evaluate("training", asked).step_time)]
    for domain in (8.0, 64.0):

        def three(*given: Any, domain: float = domain) -> tuple[network.Tier, ...]:
            near, far = tiers(*given)
            return near, network.Tier(domain, 8.0 * far.bandwidth, far.hop), far

        monkeypatch.setattr(rates, "tiers", three)
        times.append(float(jr.evaluate("training", asked).step_time))
    assert times[0] == times[1] > times[2]


def test_the_study_refuses_more_than_two_tiers() -> None:
    with pytest.raises(jr.InputError, match=r"system.tiers: the study knows fast and slow links"):
        network_of(jr.system("taper-2-h100"))


# ---- Messages of a training step over several tiers ----------------------------------------------


def links(row: dict[str, str]) -> network.Network:
    """Return the tiers of a golden row; those that are not there have the size of the one below."""
    tiers = [
        network.Tier(*(float(row[f"tier{k}_{name}"]) for name in ("size", "rate", "hop")))
        for k in range(4)
        if row[f"tier{k}_size"]
    ]
    return network.Network((*tiers, *[tiers[-1]] * (4 - len(tiers))), 15e-6)


def message_time(row: dict[str, str]) -> float:
    """Return the seconds of the message of a golden row."""
    degree, stride, size, tokens, hidden, chosen, dedup = (
        float(row[name])
        for name in ("degree", "stride", "bytes", "tokens", "hidden", "topk", "dedup")
    )
    machine = links(row)
    group = network.placed(machine, degree, stride)
    if row["kind"] != "all_to_all":
        ring = network.ladder if float(row["ladder"]) else network.gather
        found = {"gather": ring, "allreduce": network.all_reduce}[row["kind"]]
        return float(found(size, group, machine))
    near, far = (
        2.0 * tokens * hidden * (network.distinct_targets(z, chosen) if dedup else chosen)
        for z in group.domains[:2]
    )
    return float(network.all_to_all((near, far, far, far), group, machine, 1.03))


@pytest.mark.parametrize("row", golden.networks("training_messages"), ids=lambda r: r["row_id"])
def test_messages_over_several_tiers(row: dict[str, str]) -> None:
    assert message_time(row) == pytest.approx(float(row["out_time"]), rel=1e-12)


MESSAGES = [
    lambda group, machine: network.gather(1e9, group, machine),
    lambda group, machine: network.all_reduce(1e9, group, machine),
    lambda group, machine: network.all_to_all((1e9,) * 4, group, machine, 1.0),
    lambda group, machine: network.ladder(1e9, group, machine),
]
FOUR = (
    network.Tier(8.0, 3e11, 2e-6),
    network.Tier(64.0, 4e10, 6e-6),
    network.Tier(512.0, 2e10, 7e-6),
    network.Tier(0.0, 1e10, 8e-6),
)


def time_over(message: Any, tiers: tuple[network.Tier, ...], members: float) -> float:
    machine = network.Network(tiers, 15e-6)
    return float(message(network.placed(machine, members), machine))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_tier_that_no_group_crosses_changes_nothing(message: Any) -> None:
    first, second, _, _ = FOUR
    for members in (1.0, 8.0, 64.0):
        slower = tuple(t._replace(bandwidth=t.bandwidth / 7.0, hop=1.0) for t in FOUR[2:])
        expected = time_over(message, FOUR, members)
        assert time_over(message, (first, second, *slower), members) == expected


@pytest.mark.parametrize("message", MESSAGES[:2])
def test_equal_neighbours_merge(message: Any) -> None:
    """Of rings and trees; a smooth maximum moves them by up to one in a thousand."""
    first, second, _, last = FOUR
    for members in (8.0, 48.0, 512.0, 4096.0):
        split = (first, second._replace(domain=32.0), second._replace(domain=128.0), last)
        merged = (first, second._replace(domain=128.0), second._replace(domain=128.0), last)
        found, expected = (time_over(message, some, members) for some in (split, merged))
        assert found == pytest.approx(expected, rel=1.1e-3)


@pytest.mark.parametrize("message", MESSAGES)
def test_no_faster_link_slows(message: Any) -> None:
    for members in (4.0, 64.0, 100.0, 4096.0):
        before = time_over(message, FOUR, members)
        for level, tier in enumerate(FOUR):
            faster = [*FOUR]
            faster[level] = tier._replace(bandwidth=1.1 * tier.bandwidth)
            assert time_over(message, tuple(faster), members) <= before
