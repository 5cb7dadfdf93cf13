"""The results of a training step."""

from jaxroof.records import Number, quantity, record

Flag = bool | Number  # an array of booleans


@record
class Report:
    """Time, memory and legality of one optimizer step under one plan.

    The six time parts sum to ``step_time``, and the four memory parts to ``memory``. A plan is
    ``feasible`` if all verdicts before that field are true.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    throughput: Number = quantity(
        "sequence/s", "Sequences trained on a second.", better="higher", headline=True
    )
    memory: Number = quantity(
        "B",
        "Memory that the fullest accelerator needs.",
        resource="capacity",
        label="memory of one accelerator",
    )
    memory_weights: Number = quantity("B", "Memory of weights.", part_of="memory", words="weights")
    memory_gradients: Number = quantity(
        "B", "Memory of weight gradients.", part_of="memory", words="gradients"
    )
    memory_optimizer: Number = quantity(
        "B", "Memory of optimizer state.", part_of="memory", words="optimizer state"
    )
    memory_activations: Number = quantity(
        "B", "Memory of activations kept for backward.", part_of="memory", words="activations"
    )
    time_compute: Number = quantity(
        "s",
        "Time in arithmetic, launches included.",
        part_of="step_time",
        symbol="compute",
        words="arithmetic and launches",
        label="compute",
    )
    time_memory: Number = quantity(
        "s",
        "Time in HBM traffic that arithmetic does not hide.",
        part_of="step_time",
        symbol="hbm",
        words="HBM bandwidth",
        label="HBM",
    )
    time_tensor: Number = quantity(
        "s",
        "Time in tensor-parallel communication.",
        part_of="step_time",
        symbol="tensor",
        words="tensor-parallel communication",
        label="tensor links",
    )
    time_data: Number = quantity(
        "s",
        "Time in data-parallel communication not hidden.",
        part_of="step_time",
        symbol="data",
        words="data-parallel communication",
        label="data links",
    )
    time_pipeline: Number = quantity(
        "s",
        "Time in sends between pipeline stages.",
        part_of="step_time",
        symbol="sends",
        words="sends between stages",
        label="stage sends",
    )
    time_bubble: Number = quantity(
        "s",
        "Time that a stage idles while the pipeline fills.",
        part_of="step_time",
        symbol="bubble",
        words="the pipeline bubble",
        label="bubble",
    )
    flops: Number = quantity("FLOP", "Arithmetic of one accelerator in one step.")
    mfu: Number = quantity(
        "1", "Model FLOP utilisation: matrix FLOP the model needs over peak.", better="higher"
    )
    training_days: Number = quantity("day", "Time of the whole training.", label="days of training")
    tokens_per_second: Number = quantity(
        "token/s", "Tokens trained on a second by one accelerator.", better="higher"
    )
    split_allows: Flag = quantity("1", "Degrees that the split lacks are 1.")
    tensor_divides_heads: Flag = quantity("1", "Tensor degree divides the attention heads.")
    tensor_divides_hidden: Flag = quantity("1", "Tensor degree divides the hidden width.")
    context_divides_hidden: Flag = quantity("1", "Context degree divides the hidden width.")
    tensor_wide_enough: Flag = quantity("1", "A tensor rank's columns are 128 or more.")
    context_long_enough: Flag = quantity("1", "A context rank's tokens are 128 or more.")
    panels_fit: Flag = quantity("1", "Panels are a power of two of the grid's longer side.")
    pipeline_divides_layers: Flag = quantity("1", "Pipeline stages divide the layers.")
    data_divides_batch: Flag = quantity("1", "Data degree divides the global batch.")
    microbatch_divides_batch: Flag = quantity("1", "Microbatch divides a data rank's batch.")
    ranks_divide_tokens: Flag = quantity("1", "Ranks of a layer divide a microbatch's tokens.")
    placement_divides: Flag = quantity("1", "Fast degrees divide their groups.")
    placement_fills_domain: Flag = quantity("1", "Fast degrees multiply to a whole fast domain.")
    memory_fits: Flag = quantity("1", "Memory is at most the usable capacity.")
    feasible: Flag = quantity("1", "Every verdict holds.")
