"""MLPs of a layer: one that does not route, shared experts, and routed ones with their router.

Source: docs/models/parameters_flops_memory.md, sections 2.1 and 4.5;
docs/models/layers_2026.md, sections 2, 4, 5 and 10.
"""

from collections.abc import Callable

from jaxroof.estimators.training.inputs import TrainingModel
from jaxroof.estimators.training.layer.operation import (
    Cut,
    Kept,
    Matrix,
    Operation,
    Operations,
    Passes,
    Saved,
    Weights,
    Work,
    on_rank,
    plus,
    times,
)
from jaxroof.estimators.training.rates import (
    Unit,
    grouped_product,
    grouped_weight_gradient,
    matmul,
    stream,
)
from jaxroof.estimators.training.recipe import ExpertWeighting, Module
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.formulas.network import (
    all_to_all,
    beside,
    distinct_targets,
    gather,
    others,
    placed,
)
from jaxroof.records import Number

EXPERTS = (Module.EXPERTS,)
SHARED = (Module.SHARED_EXPERTS, Module.EXPERTS)


def dense_mlp(model: TrainingModel) -> Operations:
    """Return the MLP of a layer that does not route."""
    gates = 1.0 + model.gated
    biases = Weights(gates * model.feedforward, model.hidden)
    return mlp(model, model.feedforward, "MLP", "mlp", "mlp", (Module.MLP,)) | {
        "biases of an MLP": Operation("biases", vectors=biases, share=model.mlp_bias),
    }


def mlp(
    model: TrainingModel,
    width: Number,
    name: str,
    part: str,
    term: str,
    modules: tuple[Module, ...],
) -> Operations:
    """Return an MLP of a width; at width 0 there are no products. Its activation stands apart."""
    there = where(width > 0.0, 1.0, 0.0)
    gates = 1.0 + model.gated

    def inside(kept: Kept) -> Number:
        """T f / t (nu (1 + g) + lambda): inputs of the nonlinearity and of the second product."""
        acts = kept.inputs.activations
        each = acts.nonlinearity_bytes * gates + acts.linear_input_bytes
        return kept.size.tokens * width / kept.inputs.plan.tensor * each

    up = Matrix(model.hidden, gates * width, Cut.COLUMNS)
    down = Matrix(width, model.hidden, Cut.ROWS)
    saved = (Saved(term, inside, dropped=modules, read=True),)
    return {
        f"{name} up": Operation(part, up, share=there, time="matmul", again=modules, saved=saved),
        f"{name} down": Operation(part, down, share=there, time="matmul", again=modules),
    }


def activation(model: TrainingModel) -> Operations:
    """Return the activation of dense MLPs and shared experts, one kernel of the average layer.

    N / t (share of dense f + share of routing f_s) (4 + 2 g) bytes forward, (6 + 4 g) backward and
    2 for the biases' gradients
    """
    dense = times(model.dense_layers / model.layers, model.feedforward)
    shared = times(model.routed_layers / model.layers, model.shared_feedforward)
    forward = 4.0 + 2.0 * model.gated

    def both(work: Work) -> Passes:
        inner, unit = work.tokens.group * plus(dense, shared) / work.plan.tensor, work.rates.plain
        back = 6.0 + 4.0 * model.gated + 2.0 * work.software.bias
        return Passes(stream(inner * forward, 1.0, unit), stream(inner * back, 1.0, unit))

    def again(width: Number) -> Callable[[Work], Number]:
        return lambda work: stream(
            work.tokens.group * width / work.plan.tensor * forward, 1.0, work.rates.plain
        )

    return {
        "activations": Operation(time="elementwise", kernel=both),
        "activation of MLPs again": Operation(again=(Module.MLP,), repeat=again(dense)),
        "activation of shared experts again": Operation(again=SHARED, repeat=again(shared)),
    }


# ---- Routed experts -----------------------------------------------------------------------------


def shared_experts(model: TrainingModel) -> Operations:
    """Return the experts that every token meets, and the gate of what they return."""
    width, part = model.shared_feedforward, "shared_experts"
    gate = Weights(replicated=model.shared_gate * model.hidden)
    return mlp(model, width, "shared experts", part, "shared_expert", SHARED) | {
        "gate of shared experts": Operation(part, vectors=gate),
    }


def routed_mlp(model: TrainingModel) -> Operations:
    """Return the shared experts, the routed ones and their router of a layer that routes."""
    return shared_experts(model) | latents(model) | router(model) | routed_experts(model)


def latents(model: TrainingModel) -> Operations:
    """Return the products into and out of the width in which experts work, if not the hidden one.

    Assumes: ranks of a tensor group share the tokens; every one has both matrices.
    """
    there = where(model.expert_latent > 0.0, 1.0, 0.0)
    into = Matrix(model.hidden, model.expert_latent, Cut.WHOLE, divided=True)
    out = Matrix(model.expert_latent, model.hidden, Cut.WHOLE, divided=True)
    saved = (Saved("expert_latents", _latents, dropped=EXPERTS, read=True),)
    return {
        "latent of experts": Operation("experts", into, share=there, time="matmul", saved=saved),
        "from the latent of experts": Operation("experts", out, share=there, time="matmul"),
    }


def router(model: TrainingModel) -> Operations:
    """Return the router, what it computes of its scores, and what moves the tokens."""
    return {
        "router": Operation(
            "router",
            Matrix(model.hidden, model.experts, Cut.WHOLE),
            time="experts",
            kernel=_router,
            again=EXPERTS,
            saved=(Saved("router", _routing, dropped=EXPERTS),),  # read where outputs are put back
        ),
        "router scores": Operation(time="experts", kernel=_scores, again=EXPERTS),
        "correction of choices": Operation(
            "router",
            vectors=Weights(replicated=model.router_correction * model.experts),
            trained=False,
        ),
        "permutation of tokens": Operation(time="experts", kernel=_permutation, again=EXPERTS),
    }


def routed_experts(model: TrainingModel) -> Operations:
    """Return the experts that a router chooses among."""
    inner, width, gates = expert_width(model), model.expert_feedforward, 1.0 + model.gated
    held = (model.experts, model.active_experts)
    up = Matrix(inner, gates * width, Cut.EXPERT_COLUMNS, *held)
    down = Matrix(width, inner, Cut.EXPERT_ROWS, *held)
    activation = (*EXPERTS, Module.EXPERT_ACTIVATION)
    of_experts = model.experts * (gates * width + inner)
    return {
        "routed experts up": Operation(
            "experts",
            up,
            time="experts",
            kernel=lambda work: _grouped(up, work),
            again=EXPERTS,
            saved=(Saved("routed", _inputs, dropped=EXPERTS, read=True),),
        ),
        "activation of experts": Operation(time="experts", kernel=_activation, again=activation),
        "routed experts down": Operation(
            "experts",
            down,
            time="experts",
            kernel=lambda work: _grouped(down, work),
            again=EXPERTS,
            saved=(Saved("routed_outputs", _outputs, dropped=activation, read=True),),
        ),
        "casts of experts": Operation(time="experts", kernel=_casts, again=EXPERTS),
        "biases of experts": Operation(
            "biases",
            vectors=Weights(replicated=model.experts, routed=of_experts),
            share=model.expert_bias,
            time="experts",
            kernel=_biases,
            again=EXPERTS,
        ),
    }


def expert_width(model: TrainingModel) -> Number:
    """Return the width in which routed experts work: w_e, that of a latent or the hidden one."""
    return where(model.expert_latent > 0.0, model.expert_latent, model.hidden)


def expert_rows(work: Work) -> Number:
    """Return the rows of the products: ranks that share an expert have one another's tokens.

    m = imbalance N / t k tau

    Assumes: the step waits for the rank with the most rows.
    """
    return work.plan.expert_tensor * _routed(work)


def _routed(work: Work) -> Number:
    """Return the copies of tokens that a rank's experts get, if no other shares them."""
    return work.tokens.rank * work.model.active_experts * work.rates.imbalance


def grouped(matrix: Matrix, work: Work, unit: Unit, read: Number) -> Passes:
    """Return the seconds of one product of all experts of a rank, evenly loaded."""
    rows, local = expert_rows(work), larger(work.model.experts / work.plan.expert, 1.0)
    columns, inner = on_rank(matrix, work.plan)
    more = (local, unit, read, work.rates.constants)
    return Passes(
        grouped_product(rows, columns, inner, *more),
        grouped_product(rows, inner, columns, *more),
        grouped_weight_gradient(rows, columns, inner, *more),
    )


def _grouped(matrix: Matrix, work: Work) -> Passes:
    return grouped(matrix, work, work.rates.layer, work.rates.read)


def _activation(work: Work) -> Passes:
    inner = expert_rows(work) * work.model.expert_feedforward / work.plan.expert_tensor
    gated, unit = work.model.gated, work.rates.plain
    return Passes(
        stream((4.0 + 2.0 * gated) * inner, 1.0, unit),
        stream((6.0 + 4.0 * gated) * inner, 1.0, unit),
    )


def _casts(work: Work) -> Passes:
    """Return the seconds in which inputs of both products, then gradients, are cast."""
    model, rates, rows = work.model, work.rates, expert_rows(work)
    width, low = (
        model.expert_feedforward / work.plan.expert_tensor,
        where(rates.low > 0.0, 1.0, 0.0),
    )
    read = expert_width(model)
    back = read + (1.0 + model.gated) * width
    return Passes(
        low * stream(rates.cast * rows * (read + width), 2.0, rates.plain),
        low * stream(rates.cast * rows * back, 2.0, rates.plain),
    )


def _router(work: Work) -> Passes:
    """Return the seconds of the router, at 16 bits; its gradients are not put off."""
    tokens, unit = work.tokens.rank, work.rates.plain
    hidden, experts = work.model.hidden, work.model.experts
    return Passes(
        matmul(tokens, experts, hidden, unit, 2.0, 2.0),
        matmul(tokens, hidden, experts, unit, 2.0, 2.0)
        + times(work.model.trained, matmul(hidden, experts, tokens, unit, 2.0, 8.0)),
    )


def _scores(work: Work) -> Passes:
    time = stream(24.0 * work.tokens.rank * work.model.experts, 8.0, work.rates.plain)
    return Passes(time, time)


def _permutation(work: Work) -> Passes:
    """Return the seconds of putting tokens by expert and back: permute m w_e bytes."""
    rates = work.rates
    moved = rates.permute * _routed(work) * expert_width(work.model)
    time = rates.experts * stream(moved, 4.0, rates.plain)
    return Passes(time, time)


def _biases(work: Work) -> Passes:
    """Return the seconds of biases, and of an activation that is clamped between the products."""
    model, rates = work.model, work.rates
    width = expert_width(model) + model.expert_feedforward / work.plan.expert_tensor
    moved = rates.constants.expert_bias_bytes * expert_rows(work) * width / 2.0
    time = stream(moved, 4.0, rates.plain)
    return Passes(time, 2.0 * time)


def exchange(work: Work, compute: Passes) -> Passes:
    """Return the seconds that dispatch and return add to an average layer, in either direction.

    moved = xi nu 2 (a2a captured + gathers), waits = xi nu sync,
    ep = (1 - o) moved + o (beside(C, moved; 2 xi near nu) - C) + waits

    Arguments: ``compute`` are the seconds C of all work of an average layer.
    Assumes: ranks that share an expert are neighbours, gather what each was sent and scatter the
    sums of what they return; nothing was measured of that, and with one rank it takes no time.
    Source: docs/models/layers_2026.md, section 5.
    """
    model, plan, rates = work.model, work.plan, work.rates
    network, shared, chosen = rates.exchange, plan.expert_tensor, model.active_experts
    group, each = (
        placed(network, plan.expert, shared),
        2.0 * work.tokens.rank * expert_width(model),
    )
    inside, away = (
        each * (rates.dedup * distinct_targets(places, chosen) + (1.0 - rates.dedup) * chosen)
        for places in group.domains[:2]
    )
    sent = (inside, *(away for _ in network.tiers[1:]))  # a copy a fast domain, forwarded inside
    time = all_to_all(sent, group, network, rates.scatter)
    near = sent[0] * others(group.inside[0]) / (network.tiers[0].rate * rates.scatter)
    gathered = gather(each * chosen * shared, placed(network, shared), network)
    weight = model.routed_layers / model.layers * rates.experts
    moved = 2.0 * weight * (time * rates.captured + gathered)
    fast, hidden = 2.0 * weight * (near + gathered), rates.beside

    def seen(alone: Number) -> Number:
        more = beside(alone, moved, fast, rates.constants.overlap_slowdown) - alone
        return (1.0 - hidden) * moved + hidden * more + weight * rates.sync

    return Passes(seen(compute.forward), seen(compute.backward))


def _inputs(kept: Kept) -> Number:
    """Return R (lambda w_e + nu (1 + g) f_e / tau): inputs of the first product and activation.

    Of the permutation only the sorted input is kept.
    """
    model, acts = kept.inputs.model, kept.inputs.activations
    gates = acts.nonlinearity_bytes * (1.0 + model.gated)
    inner = gates * model.expert_feedforward / kept.inputs.plan.expert_tensor
    return kept.size.routed * (acts.linear_input_bytes * expert_width(model) + inner)


def _outputs(kept: Kept) -> Number:
    """Return w R f_e / tau, w = lambda, and beta more if router weights multiply apart."""
    inputs, acts = kept.inputs, kept.inputs.activations
    apart = kept.recipe.expert_weighting is ExpertWeighting.SEPARATE
    width = acts.linear_input_bytes + (acts.activation_bytes if apart else 0.0)
    return width * kept.size.routed * inputs.model.expert_feedforward / inputs.plan.expert_tensor


def _routing(kept: Kept) -> Number:
    """Return 22 (T / sigma) E + 4 R: 8 bytes for the row map, 14 for scores, maps and masks."""
    size = kept.size
    return 22.0 * size.tokens / size.shards * kept.inputs.model.experts + 4.0 * size.routed


def _latents(kept: Kept) -> Number:
    """Return 2 lambda T l / sigma: what is sent to experts in their width, and what comes back."""
    size, inputs = kept.size, kept.inputs
    width = 2.0 * inputs.activations.linear_input_bytes * inputs.model.expert_latent
    return width * size.tokens / size.shards
