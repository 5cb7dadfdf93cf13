"""How a model is served, as tables and sentences: the best plans, limits that bind, both pools."""

import json
import math
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import objective_of, parts_of, rises, unit_of, words_of
from jaxroof.analyses.serve import COST, DEGREES, LOAD, POOLS, found_some, pool_of
from jaxroof.errors import listing
from jaxroof.estimators.serving.interval import LEVEL, REGIMES, reasons_outside
from jaxroof.estimators.serving.named_settings import CACHES, formats_in_words
from jaxroof.estimators.serving.plans import BATCHES
from jaxroof.units import amount, days, percent, seconds
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import (
    field_columns,
    fields_words,
    glossary,
    is_usual,
    used_fields,
)
from jaxroof.views.text.ranked import (
    behind,
    counts_sentence,
    limit_of,
    missed_words,
    numbered,
    shares,
    with_fields,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

GB, MS, MILLION = 1e9, 1e-3, 1e6
LIMITS = {"memory": "HBM", "tpot": "TPOT", "ttft": "TTFT", "load_gpus": "the accelerators"}
WORTH = 0.005  # gains of a relaxed limit below this are none
ALWAYS = ("tensor", "batch", "chunk", "busy")


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best server, the best pair of pools, or both and which of them is better."""
    yield from title(title_of(data))
    split = str(data.attrs["split"])
    refused = str(data.attrs.get("pools_refused", ""))
    if split == "both" and not refused:
        yield from usual(versus_sentence(data))
    if split != "disaggregated":
        yield from _server(data)
    if refused:
        yield from usual(f"No pools of their own: {refused}.")
    elif split != "aggregated":
        yield from _pair(data)
    yield from usual(*asked_sentences(data))
    yield from verbose(counts_sentence(data) if "plans_legal" in data else "")


def title_of(data: xr.Dataset) -> str:
    """Return the question: model, machine, lengths and limits."""
    about, asked = data.attrs, json.loads(data.attrs["inputs"])
    on = f"{about['gpus']:,.0f} x {about['system']}" if about.get("system") else ""
    said = [f"{about['model']} on {on or '{:,.0f} accelerators'.format(about['gpus'])}"]
    said.append("{:,.0f} tokens in, {:,.0f} out".format(*lengths(asked)))
    for name in ("ttft", "tpot"):
        if bound := asked.get(f"limits.{name}"):
            said.append(f"{name.upper()} at most {seconds(bound)}")
    if load := float(data.get("load_asked", data.get("pools_load", 0.0))):
        said.append(f"{load:.4g} requests/s")
    return ", ".join(said)


def lengths(asked: Mapping[str, float]) -> tuple[float, float]:
    """Return the tokens of a prompt and of an answer."""
    return asked["workload.prompt"], asked["workload.output"]


# ---- One server ---------------------------------------------------------------------------------


def _server(data: xr.Dataset) -> Iterator[Said]:
    """Yield the best plans of servers that take prompts and answers."""
    if not bool(data.feasible.values[0]):
        yield from quiet(load_sentence(data) or nothing_sentence(data), plans_table(data))
        yield from quiet(own_sentence(data))
        return
    said = [best_sentence(data), fewer_sentence(data), load_sentence(data), users_sentence(data)]
    yield from usual(*(said if found_some(data) else said[::-1]))
    yield from quiet(plans_table(data))
    yield from usual(letters(data), limits_sentence(data))
    alike = int(data.get("plans_alike", 0))
    close = f"The best {alike:,} plans are too close for the model to tell apart."
    yield from usual(parts_sentence(data.isel(plan=0)), close * (alike > 1))
    yield from quiet(own_sentence(data))


def best_sentence(data: xr.Dataset) -> str:
    """Return the best plan with its rate, latencies and their intervals."""
    best, fits = data.isel(plan=0), int(data.plans_feasible)
    of = f"of the {fits:,} plans within every limit" if fits > 1 else "and only plan within limits"
    low, high = rate_interval(best)
    rate = f"{float(best.output_rate):,.0f} output tokens/s a GPU ({low:,.0f} to {high:,.0f} in"
    rate = f"{rate} 80 % of measured servers)"
    said = [rate, *(timed(best, name) for name in ("tpot", "ttft"))]
    count = copies(data, best)
    held = round(count * float(best.users))
    users = f"{held:,} request{'s' * (held != 1)} at once"
    cost = [f"{dollars(best)} a million output tokens"] if has_rent(data) else []
    words = f"{count:,.0f} replica{'s' * (count > 1)} of {plan_words(best)}"
    return f"Best {of}: {words}: {', '.join([*said, users, *cost])}."


def fewer_sentence(data: xr.Dataset) -> str:
    """Return that a plan of fewer accelerators gives more; empty if none does."""
    if "fewer" not in data:
        return ""
    plan = plan_words(with_fields(data, "fewer_plan"))
    gpus, size = float(data.attrs["gpus"]), float(data.fewer)
    rate = f"{float(data.fewer_rate):,.0f} tokens/s a GPU, the {gpus - size:,.0f} idle ones counted"
    return f"On {size:,.0f} of these {gpus:,.0f} more is possible: {plan}: {rate}."


def has_rent(data: xr.Dataset) -> bool:
    """Return whether a rent was given."""
    return "rent" in json.loads(data.attrs["inputs"])


def dollars(*plans: xr.Dataset) -> str:
    """Return what a million output tokens cost, of a server or of both pools."""
    output = lengths(json.loads(plans[-1].attrs["inputs"]))[1]
    return f"${MILLION * sum(float(one.request_cost) for one in plans) / output:.3g}"


def rate_interval(plan: xr.Dataset) -> tuple[float, float]:
    """Return the ends of a rate, which falls as the time of a token rises."""
    rate = float(plan.output_rate) * float(plan.tpot)
    return rate / float(plan.tpot_high), rate / float(plan.tpot_low)


def timed(plan: xr.Dataset, name: str) -> str:
    """Return a latency with its interval."""
    low, high = (float(plan[f"{name}_{end}"]) for end in ("low", "high"))
    value = float(plan[name])
    scale = MS if value < 1.0 else 1.0
    said, *ends = (
        days(v / scale) if v >= 100 * scale else f"{v / scale:.3g}" for v in (value, low, high)
    )
    return f"{name.upper()} {said} {'ms' if scale < 1.0 else 's'} ({' to '.join(ends)})"


def copies(data: xr.Dataset, plan: xr.Dataset) -> float:
    """Return how many replicas of a plan all accelerators hold."""
    return float(data.attrs["gpus"]) / float(np.prod([float(plan[name]) for name in DEGREES]))


def shown_fields(data: xr.Dataset) -> list[str]:
    """Return the fields of plans to show: those that are not at their default throughout."""
    return [n for n in used_fields(data) if n in ALWAYS or not is_usual(data, n)]


def letters(data: xr.Dataset) -> str:
    """Return what the short names of a table of plans mean."""
    named = [name for name in shown_fields(data) if name not in ALWAYS or name == "tensor"]
    said = glossary(data, named).removesuffix(".")
    return f"{said}; a row is the best plan of its split."


def plan_words(plan: xr.Dataset) -> str:
    """Return the fields of a plan that are not at their default."""
    numbers = {name: int(plan[name]) for name in shown_fields(plan)}
    return fields_words(plan, {n: v for n, v in numbers.items() if v or n not in ALWAYS})


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, rates, latencies and memory."""
    number, rows = numbered(data)
    columns = [number, *field_columns(data, shown_fields(data))]
    if "output_rate" in data:
        columns.append(Shown("tokens/s\na GPU", lambda row: f"{float(row.output_rate):,.0f}"))
        columns.append(_time_column("tpot", "TPOT\n[ms]", MS))
    else:
        rate = Shown("prompt\ntokens/s\na GPU", lambda row: f"{float(row.input_rate):,.0f}")
        columns.append(rate)
    if "ttft" in data:
        columns.append(_time_column("ttft", "TTFT\n[s]", 1.0))
    if "users" in data:
        held = Shown("at\nonce", lambda row: f"{copies(data, row) * float(row.users):,.0f}", 2)
        columns.append(held)
    limit = limit_of(data)
    columns.append(Shown("HBM\n[GB]", lambda row: f"{float(row.memory) / GB:.1f}", 3))
    share = Shown(
        f"% of\n{limit / GB:.4g}", lambda row: f"{100 * float(row.memory) / limit:.0f}", 1
    )
    return PlainTable().add_rows([*columns, share], rows)


def _time_column(name: str, head: str, scale: float) -> Shown:
    def cell(row: xr.Dataset) -> str:
        value = float(row[name]) / scale
        return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"

    return Shown(head, cell)


def limits_sentence(data: xr.Dataset, own: str = "tokens/s a GPU") -> str:
    """Return which limits bind, and what 10 % more of each gives."""
    found = json.loads(data.attrs.get("relaxed", "{}"))
    aim = objective_of(data)
    best, more = float(data[aim][0]), rises(data, aim)

    def gain(name: str, way: str = "limit_relaxed") -> float:
        value = found[name][way] or best
        return value / best - 1.0 if more else best / value - 1.0

    told = [name for name in LIMITS if name != LOAD or "load_asked" in data]
    asked = [name for name in told if name in found and found[name]["limit_bound"] is not None]
    binds = [name for name in asked if gain(name, "limit_free") >= WORTH]
    if not binds:
        if "batch" in data and int(data["batch"][0]) == BATCHES[-1]:
            return f"No limit binds: batches of more than {BATCHES[-1]:,} are not tried."
        return "No limit binds by itself." * bool(asked)
    given = f"more {own}" if aim in (COST, "output_rate") else f"better {words_of(data, aim)}"
    each = []
    for name in binds:
        gives = "nothing"
        if gain(name) >= WORTH:
            gives, given = f"{100 * gain(name):.2g} % {given}", given.partition(" ")[0]
        each.append(f"10 % more {LIMITS[name]} gives {gives}")
    idle = [LIMITS[name] for name in asked if name not in binds]
    none = f"; {listing(idle)} {'does' if len(idle) == 1 else 'do'} not bind" if idle else ""
    held = listing([LIMITS[name] for name in binds])
    verb = "binds" if len(binds) == 1 else "bind"
    return f"{held[:1].upper()}{held[1:]} {verb}: {listing(each)}{none}."


def parts_sentence(best: xr.Dataset, words: str = "") -> str:
    """Return where the accelerators' time of a request goes."""
    parts = {words_of(best, name): float(best[name]) for name in parts_of(best, COST)}
    return f"Where the time{words} goes: {shares(parts, float(best[COST]))}."


def load_sentence(data: xr.Dataset) -> str:
    """Return what the load takes of the accelerators, or how many could carry it."""
    if "load_asked" not in data:
        return ""
    asked, most, gpus = (float(v) for v in (data.load_asked, data.most_load, data.attrs["gpus"]))
    few = with_fields(data, "fewest_plan")
    need = f"{float(data.fewest):,.0f}"
    if float(data.fewest) > gpus:
        most_words = f"{gpus:,.0f} carry at most {most:.3g} requests/s within the limits"
        return f"{most_words}; {asked:.4g} take {need} accelerators ({plan_words(few)})."
    said = (
        f"{asked:.4g} requests/s take {percent(asked / most)} of what these {gpus:,.0f} can carry"
    )
    if float(data.fewest) == gpus:
        return f"{said}; fewer would not do."
    return f"{said}; {need} would do ({plan_words(few)})."


def users_sentence(data: xr.Dataset) -> str:
    """Return what as many requests at once as asked for would see, or how many are held."""
    if "users_asked" not in data:
        return ""
    asked, most, gpus = (float(v) for v in (data.users_asked, data.users_most, data.attrs["gpus"]))
    if asked > most:
        need = float(data.users_fewest)
        held = f"These {gpus:,.0f} hold at most {most:,.0f} requests at once within the limits"
        return f"{held}; {asked:,.0f} take {need:,.0f}."
    tpot, ttft = seconds(float(data.users_tpot)), seconds(float(data.users_ttft))
    rate = f"{float(data.users_rate):,.0f} tokens/s a GPU"
    few = f"as few as {float(data.users_fewest):,.0f} would hold them within the limits"
    return f"With always {asked:,.0f} at once: TPOT {tpot}, TTFT {ttft}, {rate}; {few}."


def nothing_sentence(data: xr.Dataset) -> str:
    """Return that nothing is within every limit, what excludes plans, and the nearest."""
    near, legal = data.isel(plan=0), int(data.plans_legal)
    lacks, limits = [], json.loads(data.attrs["relaxed"])
    for name, words in LIMITS.items():
        bound = limits[name]["limit_bound"] if name in limits else None
        if bound is not None and float(near[name]) > bound:
            value, unit = float(near[name]), unit_of(data, name)
            lacks.append(f"{amount(value, unit)} {words} of {amount(bound, unit)}")
    lacks += ["longer for prompts than they arrive"] * ("busy" in near and float(near.busy) >= 1.0)
    each = {w: limits[n]["limit_excludes"] for n, w in LIMITS.items() if n in limits}
    out = [f"{words} {'all' if n == legal else f'{n:,}'}" for words, n in each.items() if n]
    said = (
        f"Nothing is within every limit. Of {legal:,} legal plans are excluded: by {listing(out)}."
    )
    said = f"{said} The nearest, {plan_words(near)}, takes {listing(lacks)}."
    if "enough" not in data:
        return said
    other = plan_words(with_fields(data, "enough_plan"))
    return f"{said} {float(data.enough):,.0f} accelerators would do ({other})."


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan, and by how much it is worse or what it exceeds."""
    if "own" not in data:
        why = data.attrs.get("own_refused")
        return f"Yours is not allowed: {why}." if why else ""
    aim, best = objective_of(data), data.isel(plan=0)
    said = f"Yours, {plan_words(with_fields(data, 'own_plan'))}"
    own, first = float(data.own), float(best[aim])
    worse = (
        f"{percent(abs(1.0 - first / own))} {'more' if own < first else 'fewer'} tokens/s a GPU"
        if aim == COST
        else behind(own, first, data, aim)
    )
    if missed := missed_words(data, limit_of(data)):
        return f"{said}, is outside of the limits: {listing([*missed.values()])}; {worse}."
    place, fits = int(data.own_place), int(data.plans_feasible)
    if place == 1 or own == first:
        return f"{said}, is the best of the {fits:,} plans within the limits."
    return f"{said}: place {place:,} of the {fits:,} plans within the limits, {worse}."


# ---- Pools --------------------------------------------------------------------------------------


def _pair(data: xr.Dataset) -> Iterator[Said]:
    """Yield the best pair of pools, the plans of each, and whole pools."""
    pools = {name: pool_of(data, name).assign_attrs(gpus=data.attrs["gpus"]) for name in POOLS}
    without = [name for name, one in pools.items() if not bool(one.feasible.values[0])]
    for name in without:
        yield from quiet(f"{name.capitalize()} pool: {nothing_sentence(pools[name])}")
    if not without:
        yield from usual(pair_sentence(data, pools), whole_sentence(data))
    for name, one in pools.items():
        table = plans_table(one)
        table.title = f"{name.capitalize()} pool"
        yield from quiet(table)
        binds = limits_sentence(one, "requests/s a GPU of this pool")
        yield from usual(binds if not without else "")
    if not without:
        yield from usual(letters(pools["decode"]) if data.attrs["split"] != "both" else "")
        each = (parts_sentence(one.isel(plan=0), f" of {name}") for name, one in pools.items())
        yield from usual(*each)


def pair_rate(pools: Mapping[str, xr.Dataset]) -> tuple[float, float, float]:
    """Return the output tokens a second and accelerator of both pools, and their interval."""
    output = lengths(json.loads(pools["decode"].attrs["inputs"]))[1]
    prefill, decode = (float(pools[name][COST][0]) for name in POOLS)
    best = pools["decode"].isel(plan=0)
    ends = (decode * float(best[f"tpot_{end}"]) / float(best.tpot) for end in ("high", "low"))
    low, high = (output / (prefill + one) for one in ends)
    return output / (prefill + decode), low, high


def pair_sentence(data: xr.Dataset, pools: Mapping[str, xr.Dataset]) -> str:
    """Return the best pair of pools and the ratio of their accelerators."""
    first = {name: one.isel(plan=0) for name, one in pools.items()}
    prefill, decode = (float(pools[name][COST][0]) for name in POOLS)
    rate, low, high = pair_rate(pools)
    ratio = f"1 : {decode / prefill:.3g}" if decode > prefill else f"{prefill / decode:.3g} : 1"
    plans = f"prefill {plan_words(first['prefill'])}, decode {plan_words(first['decode'])}"
    latencies = f"{timed(first['decode'], 'tpot')}, {timed(first['prefill'], 'ttft')}"
    latencies += f", {dollars(*first.values())} a million output tokens" * has_rent(data)
    return (
        f"Best pools: {plans}, accelerators {ratio}: {rate:,.0f} output tokens/s a GPU "
        f"({low:,.0f} to {high:,.0f}), {latencies}."
    )


def whole_sentence(data: xr.Dataset) -> str:
    """Return what whole replicas carry on the accelerators there are."""
    gpus = float(data.attrs["gpus"])
    if "pools_rate" not in data:
        return "A replica of each pool takes more accelerators than there are."
    said, taken = [], 0.0
    for name in POOLS:
        row, count = (
            with_fields(pool_of(data, name), "replicas_plan"),
            int(data[f"{name}_replicas"]),
        )
        taken += count * math.prod(int(row[degree]) for degree in DEGREES)
        said.append(f"{count} x {name} {plan_words(row)}")
    rate, each = float(data.pools_rate), whole_rate(data)
    load, wants = float(data.pools_load), ""
    if load > rate:
        cost = sum(float(data[f"{name}_{COST}"][0]) for name in POOLS)
        wants = f" The {load:.4g} requests/s asked for take {math.ceil(load * cost):,} at least."
    return (
        f"On {gpus:,.0f}, whole: {' and '.join(said)}, {taken:,.0f} accelerators: "
        f"{rate:.3g} requests/s, {each:,.0f} output tokens/s a GPU.{wants}"
    )


def versus_sentence(data: xr.Dataset) -> str:
    """Return which of both ways is better on these accelerators, by how much, and how surely."""
    pools = {name: pool_of(data, name) for name in POOLS}
    fits = bool(data.feasible.values[0]), "pools_rate" in data
    if not all(fits):
        return "One server for both alone is within the limits." * fits[0] + (
            "Pools of their own alone are within the limits." * fits[1]
        )
    best, wide = data.isel(plan=0), pair_rate(pools)
    pool = whole_rate(data) / wide[0]
    server = float(data.get("fewer_rate", best.output_rate)) / float(best.output_rate)
    one = tuple(server * v for v in (float(best.output_rate), *rate_interval(best)))
    two = tuple(pool * v for v in wide)
    (more, low, _), (less, _, high) = (one, two) if one[0] >= two[0] else (two, one)
    ways = ["One server for both", "pools of their own"]
    first, second = ways if one[0] >= two[0] else ways[::-1]
    sure = "more than their intervals" if low > high else "but their intervals overlap"
    first = f"{first[:1].upper()}{first[1:]} give{'s' * (one[0] >= two[0])}"
    gap = f"{percent(more / less - 1.0)} more tokens/s a GPU than {second.lower()}"
    return f"{first} {gap} ({more:,.0f} against {less:,.0f}), {sure}."


def whole_rate(data: xr.Dataset) -> float:
    """Return the output tokens a second and accelerator of whole pools."""
    output = lengths(json.loads(data.attrs["inputs"]))[1]
    return float(data.pools_rate) * output / float(data.attrs["gpus"])


# ---- What was assumed ---------------------------------------------------------------------------


def asked_sentences(data: xr.Dataset) -> Iterator[str]:
    """Yield software and formats, what the intervals are of, and what was never measured."""
    asked, usual_ones = json.loads(data.attrs["inputs"]), json.loads(data.attrs["usual"])
    width = asked["precision.cache_width"]
    cache = next((name for name, size in CACHES.items() if size == width), f"{width:g} B")
    told = {
        "software": f"software {data.attrs['software']}",
        "precision": f"weights in {formats_in_words(asked)}",
        "cache": f"cache in {cache}",
    }
    chosen = [words for name, words in told.items() if name not in usual_ones]
    usually = [words for name, words in told.items() if name in usual_ones]
    said = [", ".join(chosen), f"by default {', '.join(usually)}" * bool(usually)]
    line = "; ".join(filter(None, said))
    yield f"{line[:1].upper()}{line[1:]}."
    first = data if "regime" in data else pool_of(data, "decode")
    own = asked[f"software.own_{'experts' if asked['model.experts'] else 'dense'}"]
    best = first.isel(plan=0)
    runs = own and np.isclose(np.log(float(best.tpot_high) / float(best.tpot)), own)
    kinds = ["your runs" if runs else REGIMES[int(best.regime)].words]
    if "decode_regime" in data and first is data:
        kinds.append(REGIMES[int(data.decode_regime[0])].words)
    kind = listing([*dict.fromkeys(kinds)])
    yield f"In brackets: between which {LEVEL} % of measured servers lie ({kind})."
    never = [*reasons_outside(asked, float(first["pipeline"][0]))]
    ranks = float(data["data"][0]) if "data" in data else 1.0
    never += not_measured(data.attrs, formats_in_words(asked), ranks)
    if never:
        yield f"What-if: nobody's measurements were compared with {listing(never)}."
    if "one_rank_plan" in data:
        one = plan_words(with_fields(data, "one_rank_plan"))
        rate = f"{float(data.one_rank_rate):,.0f} tokens/s a GPU"
        yield f"Without data-parallel attention the best is {one}: {rate}."
    sparse = asked["model.index_topk"] or asked["model.chunked"]
    yield "Attention to some keys counts as attention to all: long prompts are faster." * bool(
        sparse
    )
    if weak := json.loads(data.attrs["weak"]):
        yield f"Rough: {'; '.join(weak)}."


def not_measured(about: Mapping[str, str], formats: str, ranks: float) -> Iterator[str]:
    """Yield which ways of serving a software was not measured in, though others were."""
    seen = json.loads(about["measured"])
    if seen and ranks > 1.0 and not seen["data"]:
        yield f"data-parallel attention of {about['software']}"
    if seen and "fp4" in formats and formats not in seen["formats"]:
        yield f"weights in {formats} of {about['software']}"
