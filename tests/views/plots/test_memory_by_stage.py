"""The picture of memory by stage: bars as high as the device, the capacity where it is."""

import matplotlib.pyplot as plt
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.views import plots
from jaxroof.views.text.fit import groups


@pytest.mark.parametrize("stages", [1, 4, 32])
def test_bars_are_as_high_as_the_device(stages: int) -> None:
    plan = {"pp": stages, "dp": 32 // stages}
    data = jr.fit(model="llama3-8b", system="h100-nvs8", plan=plan, global_batch=128)
    made = plots.draw(data)
    (axes,) = made.axes
    solid = [patch for patch in axes.patches if patch.get_alpha() is None]  # no band of the error
    bars = [patch for patch in solid if patch.get_height() > 0.0]
    tops = [
        max(bar.get_y() + bar.get_height() for bar in bars if round(bar.get_center()[0]) == stage)
        for stage in range(stages)
    ]
    assert tops == pytest.approx((data.device.values / 1e9).tolist(), rel=1e-12)
    drawn = sum(bool((values > 0.0).any()) for values in groups(data).values())
    assert len(axes.containers) == drawn
    (line,) = axes.lines
    assert line.get_ydata()[0] == pytest.approx(float(data.capacity) / 1e9)
    assert axes.get_ylim()[1] > max(*tops, float(data.capacity) / 1e9)
    answer = "It fits: " if bool(data.fits) else "It does not fit by "
    assert any(text.get_text().startswith(answer) for text in made.texts)
    plt.close("all")


def test_other_data_are_refused() -> None:
    with pytest.raises(jr.InputError, match="memory_by_stage: needs the dimension 'stage'"):
        plots.memory_by_stage(jr.evaluate("model_size", model="llama3-8b"))


def swept(**axes: list[object]) -> xr.Dataset:
    """Return the memory of stages over some axes."""
    plan = {"pp": 4, "dp": 2}
    return jr.fit_stages(
        model="llama3-70b", system="h100-nvs8", plan=plan, global_batch=128, axes=axes
    )


def test_further_dimensions_make_groups_and_panels() -> None:
    data = swept(recompute=["none", "full"], sequence=[4096, 8192, 16384], tensor=[2, 4, 8])
    made = plots.draw(data)
    assert [axes.get_title() for axes in made.axes] == ["recomputation none", "recomputation full"]
    for axes, name in zip(made.axes, data.recompute.values, strict=True):
        part = data.sel(recompute=name)
        tops: dict[float, float] = {}
        for bar in axes.patches:
            middle = round(bar.get_center()[0], 3)
            tops[middle] = max(tops.get(middle, 0.0), bar.get_y() + bar.get_height())
        drawn = [tops[middle] for middle in sorted(tops)]
        assert drawn == pytest.approx((part.device.values / 1e9).ravel().tolist())
        numbers = [t.get_text() for t in axes.texts]
        assert numbers == [f"{x:.3g}" for x in (part.device.max("stage") / 1e9).values.ravel()]
        bold = [t.get_weight() == "bold" for t in axes.texts]
        assert bold == (~part.fits.values.astype(bool)).ravel().tolist()
    held = int(data.fits.sum())
    assert any(t.get_text().startswith(f"{held} of {data.fits.size} fit in") for t in made.texts)
    one = plots.draw(plots.pick(data, {"recompute": "none"}, "--at"))
    assert len(one.axes) == 1
    assert any(t.get_text().endswith(", recomputation none") for t in one.texts)
    plt.close("all")
