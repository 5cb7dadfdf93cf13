"""Every notebook runs from a clean start and was saved with its results and pictures."""

import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_was_saved_executed(path):
    code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    assert not [o for c in code for o in c.outputs if o.output_type == "error"]
    assert any("image/png" in o.get("data", {}) for c in code for o in c.outputs)


# these run whole published sweeps: `pytest -m slow`
STUDIES = {f"{number:02}" for number in range(2, 8)}
RUN = [
    pytest.param(path, marks=[pytest.mark.slow] if path.stem[:2] in STUDIES else [], id=path.stem)
    for path in NOTEBOOKS
]


@pytest.fixture(scope="module")
def again(request):
    """Return the cells of each notebook, run anew: one process, so that much is compiled once."""
    parts = {}
    asked = [item for item in request.session.items if "again" in item.fixturenames]
    for path in [item.callspec.params["path"] for item in asked]:
        clean = nbformat.v4.new_code_cell("%reset -f")  # nothing is left of the one before
        parts[path] = [clean, *nbformat.read(path, as_version=4).cells]
    every = [cell for cells in parts.values() for cell in cells]
    for number, cell in enumerate(every):
        cell["id"] = f"cell-{number}"
    whole = nbformat.v4.new_notebook(cells=every)
    resources = {"metadata": {"path": str(NOTEBOOKS[0].parent)}}
    NotebookClient(whole, timeout=300, kernel_name="python3", resources=resources).execute()
    return parts


@pytest.mark.xdist_group("notebooks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("path", RUN)
def test_notebook_runs_again_and_prints_the_same(path, again):
    assert _printed(again[path]) == _printed(nbformat.read(path, as_version=4).cells)


def _printed(cells):
    outputs = [o for c in cells if c.cell_type == "code" for o in c.outputs]
    texts = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    return [line for line in texts.splitlines() if "rates less latencies" not in line]
