"""Training beyond one torus or node: pipeline stages, and pods over a data-centre network."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.defaults import both_ways, machine, value_or
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import training_bounds as bounds
from jaxroof.records import Number, quantity, record


@record
class PipelineInputs:
    """A batch that passes through pipeline stages in microbatches."""

    system: System | None = None
    bandwidth: Number = quantity(
        "B/s", "Bandwidth of a hop; that of a torus axis or fast domain if not given.", default=None
    )
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    tokens: Number = quantity("token", "Tokens of one batch.", symbol="B")
    stages: Number = quantity("1", "Pipeline stages, two at least.", whole=True, symbol="p")
    microbatches: Number = quantity("1", "Microbatches.", whole=True, symbol="M")
    activation_width: Number = quantity("B", "Bytes of one activation.", default=2.0)


@record
class Hops:
    """The messages between stages."""

    message: Number = quantity("B", "Bytes of one hop.")
    hop_time: Number = quantity("s", "Time of one hop.")
    hops: Number = quantity("1", "Hops that follow each other in one pass.")
    time: Number = quantity("s", "Time of those hops.", headline=True)


def hop(inputs: PipelineInputs, recipe: None) -> Hops:
    """Return the messages between pipeline stages."""
    i = inputs
    bandwidth = value_or(i.bandwidth, lambda: both_ways(i.system))
    time = bounds.hop_time(i.hidden, i.microbatches, i.tokens, i.activation_width, bandwidth)
    count = bounds.hops(i.microbatches, i.stages)
    return Hops(message=time * bandwidth, hop_time=time, hops=count, time=time * count)


@record
class PodsInputs:
    """A batch split over pods, each as one large accelerator; what is given holds as given."""

    system: System | None = None
    chips: Number = quantity(
        "1", "Accelerators of one pod; the machine's if not given.", default=None, symbol="N"
    )
    pods: Number = quantity("1", "Pods.", whole=True, symbol="X")
    tokens: Number = quantity("token", "Tokens of one batch.", symbol="B")
    pod_flops: Number = quantity(
        "FLOP/s", "Peak rate of a pod; that of its accelerators if not given.", default=None
    )
    pod_bandwidth: Number = quantity(
        "B/s", "Bandwidth out of a pod; that of its interfaces if not given.", default=None
    )


@record
class Pods:
    """What a pod needs, so that the sum of gradients over pods hides."""

    rate: Number = quantity("FLOP/s", "Peak rate of a pod.")
    bandwidth: Number = quantity("B/s", "Bandwidth out of a pod.")
    tokens_per_pod: Number = quantity("token", "Tokens of one pod.")
    pod_tokens: Number = quantity("token", "Tokens that a pod needs, of very many pods.")
    pod_tokens_few: Number = quantity("token", "The same of as many pods as there are.")
    hides: Any = quantity("1", "The batch is large enough.")


def pod(inputs: PodsInputs, recipe: None) -> Pods:
    """Return what pods need to train together."""
    i = inputs

    def chips() -> Number:
        return value_or(i.chips, lambda: machine(i.system).pod * 1.0)

    def interfaces() -> Number:
        return machine(i.system).nics * machine(i.system).slow_bandwidth

    flops = value_or(i.pod_flops, lambda: chips() * machine(i.system).matrix_flops)
    bandwidth = value_or(i.pod_bandwidth, lambda: chips() * interfaces())
    needed = flops / bandwidth
    few = needed * bounds.few_share(i.pods)
    return Pods(
        rate=flops,
        bandwidth=bandwidth,
        tokens_per_pod=i.tokens / i.pods,
        pod_tokens=needed,
        pod_tokens_few=few,
        hides=i.tokens / i.pods >= few,
    )


pipeline_hop = Estimator(
    step=hop,
    inputs=PipelineInputs,
    name="pipeline_hop",
    names={"system": named.labelled_system},
    example=lambda: PipelineInputs(
        system=named.system("tpu-v5p"),
        hidden=8192.0,
        tokens=65536.0,
        stages=8.0,
        microbatches=16.0,
    ),
    about=QUESTIONS["pipeline_hop"],
)
pods = Estimator(
    step=pod,
    inputs=PodsInputs,
    name="pods",
    names={"system": named.labelled_system},
    example=lambda: PodsInputs(
        system=named.system("tpu-v5p"), pods=10.0, tokens=4e6, pod_bandwidth=5e13
    ),
    about=QUESTIONS["pods"],
)
