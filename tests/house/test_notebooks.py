"""Every notebook runs from a clean start and was saved with its results and pictures."""

import nbformat
import pytest
from nbclient import NotebookClient
from places import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_was_saved_executed(path):
    code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    assert not [o for c in code for o in c.outputs if o.output_type == "error"]
    assert any("image/png" in o.get("data", {}) for c in code for o in c.outputs)


# the others are whole published studies, and run with -m slow; what 11 shows of the MLP is held
# daily where it is computed: test_study_mlp.py, test_traces.py, test_schedule_command.py
DAILY = ("13",)
STUDIES = [path for path in NOTEBOOKS if path.stem[:2] not in DAILY]


def again(paths):
    """Return the cells of notebooks, run anew: in one process, so that much is compiled once."""
    parts = {}
    for path in paths:
        clean = nbformat.v4.new_code_cell("%reset -f")  # nothing is left of the one before
        parts[path] = [clean, *nbformat.read(path, as_version=4).cells]
    every = [cell for cells in parts.values() for cell in cells]
    for number, cell in enumerate(every):
        cell["id"] = f"cell-{number}"
    whole = nbformat.v4.new_notebook(cells=every)
    resources = {"metadata": {"path": str(NOTEBOOKS[0].parent)}}
    NotebookClient(whole, timeout=300, kernel_name="python3", resources=resources).execute()
    return parts


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("paths", [
    pytest.param([path for path in NOTEBOOKS if path not in STUDIES], id="daily"),
    pytest.param(STUDIES, id="studies", marks=pytest.mark.slow),
])  # fmt: skip
def test_notebooks_run_again_and_print_the_same(paths):
    assert paths
    for path, cells in again(paths).items():
        saved = nbformat.read(path, as_version=4).cells
        assert _printed(cells) == _printed(saved), path.stem


def _printed(cells):
    outputs = [o for c in cells if c.cell_type == "code" for o in c.outputs]
    texts = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    return [line for line in texts.splitlines() if "rates less latencies" not in line]
