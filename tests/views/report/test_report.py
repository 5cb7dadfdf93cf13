"""A page of stored results: its numbers are theirs, and nothing in it acts or loads."""

import base64
import html
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.io.formats import frame
from jaxroof.io.history import of_command
from jaxroof.io.stored_format import RESULTS, checksums
from jaxroof.limits import MEMORY
from jaxroof.views.answers import answer, headline
from jaxroof.views.report import MOST
from jaxroof.views.report.markup import LONGEST
from jaxroof.views.text import fit as fit_views
from jaxroof.views.text.layout import PlainTable

HOSTILE = "<script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>"
LOADS = {"src", "href", "data", "action", "poster", "srcset", "formaction"}


class Parsed(HTMLParser):
    """The elements of a page, its links, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(f" {text} " for text in self.texts).split())


@pytest.fixture(scope="module")
def fitted():
    return jr.fit(
        model="llama3-8b", plan={"dp": 8}, system="h100-nvs8", global_batch=128, changes=3
    )


@pytest.fixture(scope="module")
def grid():
    inputs = jr.Inputs(
        model=jr.model("gpt3"), system=jr.system("b200-nvs8"), gpus=64, global_batch=256
    )
    return jr.search(jr.published, inputs, axes={"gpus": [64, 128]}, split="1d")


def page_of(tmp_path, *results) -> str:
    jr.report(list(results), tmp_path / "page.html")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page_of_grid(tmp_path_factory, grid) -> str:
    return page_of(tmp_path_factory.mktemp("grid"), grid)


def plain(text: str) -> str:
    return " ".join(text.replace("\ue000", " ").split())


def test_it_says_what_the_command_prints(tmp_path, fitted):
    page = Parsed(page_of(tmp_path, fitted))
    words = plain(page.words.replace("\xa0", " "))
    assert plain(fit_views.title_of(fitted)) in words
    assert plain(fit_views.answer_sentence(fitted)) in words
    for sentence in fit_views.assumption_sentences(fitted):
        assert plain(sentence) in words
    cells = [cell for column in fit_views.stages_table(fitted).columns for cell in column.cells]
    assert len(cells) > 5
    assert {*cells} <= {*page.texts}


@pytest.mark.parametrize("kind", ["nc", "json", "zarr"])
def test_its_numbers_are_those_of_the_file(tmp_path, grid, kind):
    path = tmp_path / f"found.{kind}"
    jr.write(grid, path)
    page = page_of(tmp_path, path)
    kept = re.search(r'href="data:text/csv;base64,([^"]+)" download="found.csv"', page)
    table = pd.read_csv(io.BytesIO(base64.b64decode(kept[1])))
    expected = frame(jr.read(path))
    assert [*table.columns] == [*expected.columns]
    np.testing.assert_array_equal(table.step_time.to_numpy(), expected.step_time.to_numpy())
    for value in grid.step_time.values.ravel():
        assert f'<td class="number">{value:.4g}</td>' in page


def test_it_says_what_made_a_file(tmp_path, grid):
    path = tmp_path / "found.nc"
    with of_command("jaxroof run 'a & b.toml' -o found.nc"):
        jr.write(grid, path)
    page = page_of(tmp_path, path)
    words = Parsed(page).words
    assert "Command jaxroof run 'a & b.toml' -o found.nc" in words
    assert re.search(r"Written \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC ", words)
    assert "Again jaxroof rerun found.nc" in words
    assert f"{checksums(grid)[RESULTS]}, as written" in words
    assert all(f"{name} {v}" in words for name, v in json.loads(grid.versions).items())
    assert "history" not in jr.read(path).attrs


def test_several_results_are_listed_with_what_each_says(tmp_path, jaxroof):
    files = [str(tmp_path / f"{name}.nc") for name in ("schedule", "pareto")]
    here = "--model llama3-8b --system h100-nvs8 --batch 64"
    assert jaxroof(f"schedule {here} --plan dp=2,tp=2,pp=2 -o {files[0]}").code == 0
    assert jaxroof(f"pareto {here} --gpus 8 -o {files[1]}").code == 0
    listed = Parsed(page_of(tmp_path, *files)).words
    first = listed.partition("Written by")[0]
    assert "schedule.nc: Best: " in first
    assert "pareto.nc: In 85.52 GB: " in first
    assert all(f"Again jaxroof rerun {name}.nc" in listed for name in ("schedule", "pareto"))


def test_a_file_that_python_writes_names_no_command(tmp_path, grid):
    jr.write(grid, tmp_path / "found.nc")
    words = Parsed(page_of(tmp_path, tmp_path / "found.nc")).words
    assert " Command " not in words
    assert "(time of the file)" in words


def test_inputs_have_units_and_meanings(grid, page_of_grid):
    words = Parsed(page_of_grid).words
    assert "system.hbm_capacity 192 GB Capacity of the high-bandwidth memory." in words
    assert all(path in words for path in json.loads(grid.inputs))
    assert "split 1d" in words


def test_several_results_have_a_table_of_contents(tmp_path, fitted, grid, page_of_grid):
    page = page_of(tmp_path, fitted, grid.assign_attrs(title="Two sizes"))
    links = re.findall(r'<a href="#([\w-]+)">([^<]+)</a>', page)
    assert [text for _, text in links] == [html.escape(fit_views.title_of(fitted)), "Two sizes"]
    assert all(f'id="{name}"' in page for name, _ in links)
    assert "<nav" not in page_of_grid


def hostile(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset in which every text that a file may hold is markup."""
    texts = dict.fromkeys(("title", "software", "estimator", "question", "where"), HOSTILE)
    words = json.dumps({HOSTILE: HOSTILE})
    texts |= {"versions": words, "recipe": words, "inputs": json.dumps({HOSTILE: 1.0})}
    marked = data.rename(step_time=HOSTILE)
    marked[HOSTILE].attrs = {"units": HOSTILE, "long_name": HOSTILE}
    return marked.assign_attrs(texts).assign_coords(note=("gpus", [HOSTILE] * data.sizes["gpus"]))


def test_texts_of_a_file_are_texts(tmp_path, grid):
    page = page_of(tmp_path, hostile(grid))
    found = Parsed(page)
    assert "<script>window" not in page
    assert found.tags.count("script") == 1
    assert not any(name.startswith("on") for name, _ in found.attributes)
    assert page.count(html.escape(HOSTILE)) > 8


def test_long_texts_and_control_characters_do_not_pass(tmp_path, grid):
    page = page_of(tmp_path, grid.assign_attrs(title="a\x1b[2J" + "x" * 10 * LONGEST))
    assert "\x1b" not in page
    assert "x" * (LONGEST + 1) not in page


def test_nothing_is_loaded_from_elsewhere(tmp_path, fitted, grid):
    page = page_of(tmp_path, fitted, grid)
    found = Parsed(page)
    for name, value in found.attributes:
        if name in LOADS:
            assert value.startswith(("data:", "#")), value[:80]
    assert "@import" not in page
    assert "url(" not in page
    assert "style" not in {name for name, _ in found.attributes}, "the policy allows none"
    assert len(page) < 5_000_000


def test_the_same_results_make_the_same_page(tmp_path, grid, page_of_grid):
    assert page_of(tmp_path, grid) == page_of_grid


def test_a_result_that_no_picture_shows_says_so(tmp_path, grid):
    page = Parsed(page_of(tmp_path, xr.Dataset({"x": ("row", [1.0, 2.0])}))).words
    assert "No picture: draw: a CSV is rows of a table" in page
    assert "All values as " in page


def test_a_result_that_lacks_what_its_command_prints_keeps_its_numbers(tmp_path, fitted):
    words = Parsed(page_of(tmp_path, fitted.drop_vars("capacity"))).words
    assert "The rest of its answer cannot be printed" in words
    assert "No picture" in words
    assert "All values as " in words


def test_a_picture_of_too_many_lines_is_drawn_in_dots(tmp_path, grid, page_of_grid, monkeypatch):
    from jaxroof.views.plots import style

    assert 'src="data:image/svg+xml;base64,' in page_of_grid
    monkeypatch.setattr(style, "VECTORS", 1000)
    assert 'src="data:image/png;base64,' in page_of(tmp_path, grid)


@pytest.mark.parametrize(("ask", "said"), [
    (lambda data, at: jr.report(data, at / "page.pdf"), "expected a name that ends in .html"),
    (lambda data, at: jr.report([], at / "page.html"), "a page of 1 to"),
    (lambda data, at: jr.report([data] * (MOST + 1), at / "page.html"), "a page of 1 to"),
    (lambda data, at: jr.report(at / "no.nc", at / "page.html"), "no such file"),
    (lambda data, at: jr.report("rows.csv", at / "page.html"), "a CSV has no units"),
    (lambda data, at: jr.report(data, at / "no" / "page.html"), "no such directory"),
])  # fmt: skip
def test_bad_input_is_one_line(tmp_path, grid, ask, said):
    with pytest.raises(InputError, match=re.escape(said)):
        ask(grid, tmp_path)
    assert not list(tmp_path.iterdir())


def test_values_that_do_not_fit_in_memory_are_refused(tmp_path, grid, monkeypatch):
    jr.write(grid, tmp_path / "found.zarr")
    monkeypatch.setenv(MEMORY, "1 kB")
    with pytest.raises(InputError, match=r"found\.zarr: its results take"):
        jr.report(tmp_path / "found.zarr", tmp_path / "page.html")


def test_a_dataset_of_another_program_has_no_answer():
    assert list(answer(xr.Dataset({"x": 1.0}))) == []
    assert headline(xr.Dataset({"x": 1.0})) == ""


def test_sentences_come_first(fitted):
    found = [one.piece for one in answer(fitted)]
    assert isinstance(found[0], str)
    assert any(isinstance(one, PlainTable) for one in found)
