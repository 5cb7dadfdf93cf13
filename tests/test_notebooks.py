"""Every notebook runs from a clean process and was saved with its results and pictures."""

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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_again_and_prints_the_same(path):
    saved = nbformat.read(path, as_version=4)
    again = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(again, timeout=300, kernel_name="python3", resources=resources).execute()
    assert _printed(again) == _printed(saved)


def _printed(notebook):
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    texts = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    return [line for line in texts.splitlines() if "rates less latencies" not in line]
