"""The results of a server, of a prefill pool and of a decode pool.

Source: docs/models/serving.md, sections 4 to 7.
"""

from jaxroof.estimators.legality import with_verdicts
from jaxroof.estimators.serving.interval import WORDS
from jaxroof.estimators.serving.legality import (
    DECODE_LIMITS,
    DECODE_RULES,
    LIMITS,
    PREFILL_LIMITS,
    PREFILL_RULES,
    RULES,
    sentences,
)
from jaxroof.records import Number, quantity, record


def _part(doc: str, words: str) -> Number:
    """Declare a part of the accelerator-seconds of a request."""
    return quantity("s", doc, part_of="accelerator_time", words=words, label=words)


def _memory(doc: str, words: str) -> Number:
    return quantity("B", doc, part_of="memory", words=words)


@record
class Costs:
    """What a request takes of all accelerators; the parts sum to it. And the memory of one."""

    accelerator_time: Number = quantity(
        "s", "Accelerator-seconds of a request: accelerators over requests a second.",
        words="accelerator time", label="accelerator-seconds a request", headline=True,
    )  # fmt: skip
    part_attention: Number = _part("Projections of attention.", "attention")
    part_cache: Number = _part("Reading the cache, and its scores and values.", "cache")
    part_scores: Number = _part("Scores and values of prompts.", "prompt scores")
    part_mlp: Number = _part("Dense and shared MLPs.", "MLP")
    part_experts: Number = _part("Routed experts.", "experts")
    part_elementwise: Number = _part("Norms, rotation and other vectors.", "elementwise")
    part_all_reduce: Number = _part("All-reduces of tensor ranks.", "all-reduce")
    part_exchange: Number = _part("Exchange of experts that is not hidden.", "expert exchange")
    part_head: Number = _part("The output layer.", "head")
    part_launch: Number = _part("Fixed times of layers.", "launches")
    part_pipeline: Number = _part("Messages between stages.", "pipeline messages")
    part_host: Number = _part("Scheduler, sampler and launches that the host is late with.", "host")
    part_idle: Number = _part("Time in which a pool has no prompt.", "idle")
    rate: Number = quantity("request/s", "Requests a second of a replica.", better="higher")
    memory: Number = quantity(
        "B", "Memory of the fullest accelerator.", resource="capacity", words="HBM"
    )
    memory_weights: Number = _memory("Weights.", "weights")
    memory_sequences: Number = _memory("Caches and logits of sequences.", "sequences")
    memory_working: Number = _memory("Workspaces, graphs and activations.", "working space")
    regime: Number = quantity(
        "1", "Kind of server whose measured errors the intervals have.", flags=WORDS
    )
    load_gpus: Number = quantity(
        "1", "Accelerators that the load asked takes; 0 without a load.",
        words="accelerators for the load",
    )  # fmt: skip
    request_energy: Number = quantity(
        "J", "Energy of a request; 0 where no power of the accelerator is known."
    )
    request_cost: Number = quantity("USD", "Rent of a request; 0 without a rent.")


@record
class Decoding(Costs):
    """What tokens after the first take."""

    tpot: Number = quantity(
        "s", "Time of an output token after the first, the mean.", headline=True, words="TPOT"
    )
    tpot_low: Number = quantity("s", "The lower end: 10 % of measured servers take less.")
    tpot_high: Number = quantity("s", "The upper end: 10 % of measured servers take longer.")
    interactivity: Number = quantity(
        "token/s", "Tokens a second that a user sees.", better="higher"
    )
    output_rate: Number = quantity(
        "token/s", "Output tokens a second of one accelerator.", better="higher", headline=True
    )
    step_decode: Number = quantity("s", "One step of the batch without prompts.")
    largest_batch: Number = quantity("sequence", "Sequences that the memory holds.")
    last_batch: Number = quantity(
        "1", "Whether a search tries no larger batch, so that one may be better yet.",
        flags=("no", "yes"),
    )  # fmt: skip


@record
class Prompting(Costs):
    """What the first token takes."""

    ttft: Number = quantity("s", "Time to the first token, the mean.", headline=True, words="TTFT")
    ttft_low: Number = quantity("s", "The lower end: 10 % of measured servers take less.")
    ttft_high: Number = quantity("s", "The upper end: 10 % of measured servers take longer.")
    start: Number = quantity("s", "Before and after the prompt's own steps.", part_of="ttft")
    service: Number = quantity("s", "Steps of a prompt's own.", part_of="ttft")
    wait: Number = quantity("s", "Wait for prompts before it, the mean.", part_of="ttft")
    wait_p90: Number = quantity("s", "Wait that nine in ten requests do not exceed.")
    step_prompt: Number = quantity("s", "One step of a chunk of prompts alone.")


@record
@with_verdicts(RULES, **sentences(LIMITS))
class ServingReport(Prompting, Decoding):
    """A server that decodes and takes prompts on the same accelerators."""

    latency: Number = quantity("s", "Time of a whole answer.")
    busy: Number = quantity(
        "1", "Share of the time with prompts; at 1 the queue grows.", words="share with prompts"
    )
    chunks: Number = quantity(
        "1", "Steps with prompts a decode step; above 1 prompts fall behind.",
        words="chunks a decode step",
    )  # fmt: skip
    users: Number = quantity("request", "Requests in flight.", better="higher")
    total_rate: Number = quantity(
        "token/s", "Prompt and output tokens a second of one accelerator.", better="higher"
    )
    step_mixed: Number = quantity("s", "One step of the batch with a chunk of prompts.")


@record
@with_verdicts(PREFILL_RULES, **sentences(PREFILL_LIMITS))
class PrefillReport(Prompting):
    """A pool that takes prompts alone and hands their caches over."""

    transfer: Number = quantity("s", "Handing the cache over.", part_of="ttft")
    input_rate: Number = quantity(
        "token/s", "Prompt tokens a second of one accelerator.", better="higher", headline=True
    )


@record
@with_verdicts(DECODE_RULES, **sentences(DECODE_LIMITS))
class DecodeReport(Decoding):
    """A pool that decodes alone."""
