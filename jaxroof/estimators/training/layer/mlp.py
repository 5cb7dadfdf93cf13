"""MLPs of a layer: one that does not route, shared experts, and routed ones with their router.

Source: docs/models/parameters_flops_memory.md, sections 2.1 and 4.5;
docs/models/training_step_today.md, sections 4 and 11.
"""

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
)
from jaxroof.estimators.training.rates import (
    grouped_product,
    grouped_weight_gradient,
    matmul,
    stream,
)
from jaxroof.estimators.training.recipe import ExpertWeighting, Module
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.formulas.network import all_to_all, distinct_targets, gather, placed
from jaxroof.records import Number

EXPERTS = (Module.EXPERTS,)


def dense_mlp(model: TrainingModel) -> Operations:
    """Return the MLP of a layer that does not route."""
    bias = model.mlp_bias
    gates = 1.0 + model.gated
    return mlp(model, model.feedforward, "MLP", "mlp", "mlp", (Module.MLP,)) | {
        "biases of an MLP": Operation(
            "biases",
            vectors=Weights(bias * gates * model.feedforward, bias * model.hidden),
        ),
    }


def shared_experts(model: TrainingModel) -> Operations:
    """Return the experts that every token meets."""
    modules = (Module.SHARED_EXPERTS, Module.EXPERTS)
    width = model.shared_feedforward
    return mlp(model, width, "shared experts", "shared_experts", "shared_expert", modules)


def mlp(
    model: TrainingModel,
    width: Number,
    name: str,
    part: str,
    term: str,
    modules: tuple[Module, ...],
) -> Operations:
    """Return an MLP of a width; at width 0 there are no products."""
    there = where(width > 0.0, 1.0, 0.0)
    gates = 1.0 + model.gated

    def activation(work: Work) -> Passes:
        """N f / t (4 + 2 g) bytes forward, (6 + 4 g) backward and 2 for the biases' gradients."""
        inner, unit = work.tokens.group * width / work.plan.tensor, work.rates.plain
        back = 6.0 + 4.0 * model.gated + 2.0 * work.software.bias
        return Passes(
            stream(inner * (4.0 + 2.0 * model.gated), 1.0, unit), stream(inner * back, 1.0, unit)
        )

    def inside(kept: Kept) -> Number:
        """T f / t (nu g + lambda): the inputs of the nonlinearity and of the second product."""
        acts = kept.inputs.activations
        each = acts.nonlinearity_bytes * gates + acts.linear_input_bytes
        return kept.size.tokens * width / kept.inputs.plan.tensor * each

    up = Matrix(model.hidden, gates * width, Cut.COLUMNS)
    down = Matrix(width, model.hidden, Cut.ROWS)
    return {
        f"{name} up": Operation(part, up, share=there, time="matmul", again=modules),
        f"{name} activation": Operation(
            time="elementwise",
            kernel=activation,
            launched=there,
            again=modules,
            saved=(Saved(term, inside, dropped=modules, read=True),),
        ),
        f"{name} down": Operation(
            part, down, share=there, time="matmul", halves=0.5 * there, again=modules
        ),
    }


# ---- Routed experts -----------------------------------------------------------------------------


def routed_mlp(model: TrainingModel) -> Operations:
    """Return the shared experts, the routed ones and their router of a layer that routes."""
    hidden, width, bias = model.hidden, model.expert_feedforward, model.expert_bias
    gates, alone = 1.0 + model.gated, where(model.shared_feedforward > 0.0, 0.0, 0.5)
    held = (model.experts, model.active_experts)
    up = Matrix(hidden, gates * width, Cut.EXPERT_COLUMNS, *held)
    down = Matrix(width, hidden, Cut.EXPERT_ROWS, *held)
    activation = (*EXPERTS, Module.EXPERT_ACTIVATION)
    of_experts = bias * model.experts * (gates * width + hidden)
    biases = Weights(replicated=bias * model.experts, routed=of_experts)
    return shared_experts(model) | {
        "router": Operation(
            "router",
            Matrix(hidden, model.experts, Cut.WHOLE),
            time="experts",
            kernel=_router,
            again=EXPERTS,
        ),
        "router scores": Operation(time="experts", kernel=_scores, again=EXPERTS),
        "permutation of tokens": Operation(
            time="experts", kernel=_permutation, message=exchange, sent="expert_comm", again=EXPERTS
        ),
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
            halves=alone,
            again=EXPERTS,
            saved=(
                Saved("routed_outputs", _outputs, dropped=activation, read=True),
                Saved("router", _routing, dropped=EXPERTS),  # read where outputs are put back
            ),
        ),
        "casts of experts": Operation(time="experts", kernel=_casts, again=EXPERTS),
        "biases of experts": Operation("biases", vectors=biases),
    }


def _rows(work: Work) -> Number:
    """Return the rows of the products: ranks that share an expert have one another's tokens."""
    return work.plan.expert_tensor * work.tokens.rank * work.model.active_experts


def _grouped(matrix: Matrix, work: Work) -> Passes:
    """Return the seconds of one product of all experts of a rank, evenly loaded."""
    rates, rows = work.rates, _rows(work)
    local = larger(work.model.experts / work.plan.expert, 1.0)
    unit = rates.layer._replace(rate=rates.layer.rate * rates.constants.grouped)
    columns, inner = on_rank(matrix, work.plan)
    idle = rates.constants.expert_rows
    forward, back = (
        grouped_product(rows, n, k, local, idle, unit, rates.read)
        for n, k in ((columns, inner), (inner, columns))
    )
    gradient = grouped_weight_gradient(rows, columns, inner, local, unit, rates.read)
    return Passes(forward, back, gradient)


def _activation(work: Work) -> Passes:
    inner = _rows(work) * work.model.expert_feedforward / work.plan.expert_tensor
    gated, unit = work.model.gated, work.rates.plain
    return Passes(
        stream((4.0 + 2.0 * gated) * inner, 1.0, unit),
        stream((6.0 + 4.0 * gated) * inner, 1.0, unit),
    )


def _casts(work: Work) -> Passes:
    """Return the seconds in which inputs of both products, then gradients, are cast."""
    model, rates, rows = work.model, work.rates, _rows(work)
    width, low = (
        model.expert_feedforward / work.plan.expert_tensor,
        where(rates.low > 0.0, 1.0, 0.0),
    )
    back = model.hidden + (1.0 + model.gated) * width
    return Passes(
        low * stream(rates.cast * rows * (model.hidden + width), 2.0, rates.plain),
        low * stream(rates.cast * rows * back, 2.0, rates.plain),
    )


def _router(work: Work) -> Passes:
    """Return the seconds of the router, at 16 bits; its gradients are not put off."""
    tokens, unit = work.tokens.rank, work.rates.plain
    hidden, experts = work.model.hidden, work.model.experts
    return Passes(
        matmul(tokens, experts, hidden, unit, 2.0, 2.0),
        matmul(tokens, hidden, experts, unit, 2.0, 2.0)
        + matmul(hidden, experts, tokens, unit, 2.0, 8.0),
    )


def _scores(work: Work) -> Passes:
    time = stream(24.0 * work.tokens.rank * work.model.experts, 8.0, work.rates.plain)
    return Passes(time, time)


def _permutation(work: Work) -> Passes:
    rates, routed = work.rates, work.tokens.rank * work.model.active_experts
    moved = rates.permute * routed * work.model.hidden
    time = rates.experts * stream(moved, 4.0, rates.plain)
    return Passes(time, time)


def exchange(work: Work, _: Passes) -> Passes:
    """Return the seconds of dispatch and return of one layer, in either direction.

    Assumes: ranks that share an expert are neighbours, gather what each was sent and scatter the
    sums of what they return; nothing was measured of that, and with one rank it takes no time.
    """
    model, plan, rates = work.model, work.plan, work.rates
    expert, shared, network = plan.expert, plan.expert_tensor, rates.network
    group, chosen = placed(network, expert, shared), model.active_experts
    once, each = rates.dedup > 0.0, 2.0 * work.tokens.rank * model.hidden
    sent = tuple(
        each * where(once, distinct_targets(places, chosen), chosen)
        for places in group.domains[:-1]
    )
    time = all_to_all(sent, group, network, rates.constants.scatter_rate)
    gathered = gather(each * chosen * shared, placed(network, shared), network)
    both = rates.experts * (2.0 * (time * rates.exchange + gathered) + rates.sync)
    return Passes(both, both)


def _inputs(kept: Kept) -> Number:
    """Return R (lambda h + nu (1 + g) f_e / tau): inputs of the first product and its nonlinearity.

    Of the permutation only the sorted input is kept.
    """
    model, acts = kept.inputs.model, kept.inputs.activations
    gates = acts.nonlinearity_bytes * (1.0 + model.gated)
    inner = gates * model.expert_feedforward / kept.inputs.plan.expert_tensor
    return kept.size.routed * (acts.linear_input_bytes * model.hidden + inner)


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
