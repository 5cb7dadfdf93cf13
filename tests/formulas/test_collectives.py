"""A collective, a synchronisation and a send take the time of the published implementation."""

import golden_rows as golden
import numpy as np
import pytest
from every_collective import COLLECTIVES

from jaxroof.estimators.published.layer_time import links
from jaxroof.formulas import collectives, schedule

KINDS = [  # golden kind, ours, rows in the file, rtol
    ("allgather", collectives.all_gather, 687, 1e-12),
    ("reducescatter", collectives.reduce_scatter, 660, 1e-12),
    ("allreduce", collectives.all_reduce, 687, 1e-12),
    ("broadcast", collectives.broadcast, 687, 1e-12),
    ("reduce", collectives.reduce, 660, 1e-12),
    ("p2p", collectives.point_to_point, 666, 1e-12),
]


def time(collective: collectives.Collective, rows: golden.Rows, group: np.ndarray) -> np.ndarray:
    """Return the seconds of one collective at every row."""
    message = rows["volume_GB"] * golden.GIGA
    channel = links(golden.system(rows))
    return np.asarray(collective(message, group, rows["nv_group"], *channel))


@pytest.mark.parametrize(("kind", "collective", "count", "rtol"), KINDS)
def test_collective_times(
    kind: str, collective: collectives.Collective, count: int, rtol: float
) -> None:
    """Every kind at every size, group and placement, empty and lonely ones among them."""
    rows = golden.read("comm_times", kind=kind)
    assert golden.size(rows) == count
    golden.agree(time(collective, rows, rows["group"]), rows["time_s"], rtol, says=kind, rows=rows)


LINKS = (2.0, 0.5, 1.0, 1.0, 1.0)  # bandwidth [B/s] and latency [s], fast and slow; interfaces
ROWS = [  # collective, message [B], group, fast, expected [s], rtol, source
    (collectives.all_gather, 8.0, 4.0, 2.0, 5.0, 1e-12, "section 4, rule 7, by hand: 3 + 1 + 1"),
]


@pytest.mark.parametrize(
    ("collective", "message", "group", "fast", "expected", "rtol", "source"), ROWS
)
def test_collective_times_of_other_sources(
    collective: collectives.Collective,
    message: float,
    group: float,
    fast: float,
    expected: float,
    rtol: float,
    source: str,
) -> None:
    """What the published implementation lacks has rows of its own, each with its source."""
    assert float(collective(message, group, fast, *LINKS)) == pytest.approx(expected, rel=rtol)


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
        (collectives.all_gather, "t_layer_fwd", "t_fwd"),
        (collectives.reduce_scatter, "t_layer_bwd", "t_bwd"),
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
    link = time(collectives.point_to_point, rows, np.full(count, 2.0))
    share = np.asarray(schedule.send_share(rows["group"], rows["nv_group"]))
    sends = shown * rows["n_micro"] * share * link
    golden.agree(sends, rows["t_fwd"], rtol, says="t_fwd", rows=rows)
    golden.agree(sends, rows["t_bwd"], rtol, says="t_bwd", rows=rows)
    golden.agree(2.0 * sends, rows["t"], rtol, says="t", rows=rows)
