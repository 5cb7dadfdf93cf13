"""The report command: a page for every file that a command writes, and in a real browser."""

import html
import shutil

import pytest

ASKED = {  # commands whose files a page shows
    "fit": "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 128 -o a.nc",
    "fewest": "fit --model llama3-8b --system h100-nvs8 --batch 128 --gpus 8 -o a.json",
    "search": "search --model llama3-8b --system h100-nvs8 --gpus 8 --batch 128 -o a.nc",
    "sizes": "search --model llama3-8b --system h100-nvs8 --gpus 8,16 --batch 128 -o a.json",
    "by memory": "search --model llama3-8b --system h100-nvs8 --gpus 8,16 --batch 128"
    " --objective device -o a.json",
    "legal plans": "search --estimator published --model gpt3 --system b200-nvs8 --gpus 64"
    " --batch 256 -o a.nc",
    "study's layers": "layers --estimator published --model gpt3 --system b200-nvs8"
    " --plan dp=8,tp=8,pp=2 -o a.json",
    "compare": "compare --estimator published --model gpt3 --system b200-nvs8,h200-nvs8"
    " --gpus 64 --batch 256 -o a.json",
    "stairs": "pareto --estimator published --model gpt3 --system b200-nvs8 --gpus 64"
    " --batch 256 -o a.nc",
    "explain": "explain --model llama3-8b --system h100-nvs8 --gpus 8 --batch 8"
    " --where cp=1,off=0 -o a.nc",
    "layers": "layers --model llama3-8b --system h100-nvs8 --plan dp=8 -o a.nc",
    "unfused": "layers --estimator unfused --model gpt3 --system a100-unfused --plan tp=4 -o a.nc",
    "schedule": "schedule --model llama3-8b --system h100-nvs8 --batch 64 --plan dp=2,pp=4"
    " -o a.json",
    "roofline": "roofline --op matmul --shape B=256,D=4096,F=16384 --dtypes bf16"
    " --system tpu-v5e -o a.json",
    "trace": "trace --model mlp-xs --system distir-a --plan dp=2,tp=2,pp=4,m=4 --batch 256"
    " --profile distir-a -o a.json",
}


LEVELS = (
    "fit",
    "search",
    "compare",
    "explain",
    "pareto",
    "layers",
    "schedule",
)  # commands with --verbose
UNKNOWN = (  # sentences of which a file lacks what they say: counts of plans, options
    "On ",  # several numbers of accelerators
    "Not shown at this width:",
    "A bar is one accelerator",  # a page has the picture
)
OF_ALL_PLANS = (
    "Best of the", "One other plan is", "No other plan", "other plans are", "legal plans",
)  # fmt: skip


def sentences(out: str, line: str) -> list[str]:
    """Return the sentences that a command printed, less those that its file cannot tell."""
    said = [one.strip() for one in out.splitlines() if one.endswith(".")]
    left_out = (*UNKNOWN, *(OF_ALL_PLANS if line == ASKED["legal plans"] else ()))
    return [one for one in said if not any(words in one for words in left_out)]


# others that run daily, but for the estimator or the objective
LIKE = ("fewest", "legal plans", "unfused", "by memory", "study's layers")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=name, marks=[pytest.mark.slow] * (name in LIKE))
        for name, line in ASKED.items()
    ],
)
def test_a_page_of_every_command(jaxroof, tmp_path, line):
    whole = f"{line} --verbose" if line.startswith(LEVELS) else line
    printed = jaxroof(whole)
    assert printed.code in (0, 1)
    name = line.rpartition(" ")[2]
    said = jaxroof(f"report {name} -o page.html")
    assert said.code == 0, said.err
    assert "wrote page.html" in said.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "cannot be printed" not in page
    assert "No picture" not in page
    shown = " ".join(html.unescape(page).replace("\N{NO-BREAK SPACE}", " ").split())
    found = sentences(printed.out, line)
    assert found
    for sentence in found:
        assert sentence in shown
    if line.startswith("trace"):  # a file for other programs, which has no attribute of ours
        return
    assert f"jaxroof {whole}" in page


def test_the_name_of_the_page_is_that_of_the_first_file(jaxroof, tmp_path):
    jaxroof(ASKED["roofline"])
    assert jaxroof("report a.json").code == 0
    assert (tmp_path / "a.html").is_file()


@pytest.mark.parametrize(("line", "said"), [
    ("report", "Missing argument 'FILE...'"),
    ("report no.nc", "no.nc: no such file"),
    ("report a.json -o page.pdf", "page.pdf: a page of HTML; expected a name that ends in"),
    ("report rows.csv -o page.html", "expected .nc, .json or .zarr"),
    ("report sweep.toml -o page.html", "cannot tell the kind of file from '.toml'"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(jaxroof, line, said):
    found = jaxroof(line)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


# ---- In a browser -------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
HOSTILE = "<script>window.hit=1</script><img src=x onerror=window.hit=1>"


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def test_it_opens_with_the_network_off(jaxroof, tmp_path, browser):
    """It loads nothing, says nothing wrong, runs nothing of a file, is not cut, and zooms."""
    import jaxroof as jr

    data = jr.fit(model="llama3-8b", system="h100-nvs8", plan={"dp": 8}, global_batch=128)
    jr.report([data, data.assign_attrs(model=HOSTILE, system=HOSTILE)], tmp_path / "page.html")
    for width, scheme in ((1440, "light"), (400, "dark")):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        page, asked, wrong = context.new_page(), [], []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("console", lambda said, wrong=wrong: wrong.append(said.text))
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert wrong == []
        assert page.evaluate("window.hit") is None
        assert page.evaluate("document.documentElement.scrollWidth") == width
        image = page.locator(".picture img").first
        before = image.bounding_box()["width"]
        page.get_by_role("button", name="larger").first.click()
        assert image.bounding_box()["width"] > 1.3 * before
        page.locator(".view").first.press("0")
        assert image.bounding_box()["width"] == pytest.approx(before, rel=0.05)
        context.close()
