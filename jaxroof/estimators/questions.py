"""The question that each estimator answers: a list of them then needs no estimator."""

QUESTIONS = {
    "published": "How long does a training step take, and what does it need?",
    "training": (
        "How long does a training step of a model of today take, how sure is that, and does it fit?"
    ),
    "tpu_training": (
        "How long does a training step under MaxText take on a torus of TPUs, and does it fit?"
    ),
    "serving": (
        "Which plan serves a model at least cost within limits on the first and on every token?"
    ),
    "serving_prefill": "Which plan takes prompts at least cost, in a pool that does nothing else?",
    "serving_decode": "Which plan decodes at least cost, in a pool that does nothing else?",
    "whole_run": "How many days, dollars and kWh does a whole training run take, with its stops?",
    "stage_memory": (
        "What does the fullest stage of a training step keep in memory, and does it fit?"
    ),
    "model_size": "How many parameters does a model have, in all, for one token, and by part?",
    "model_flops": "How many FLOP does training on some tokens take, under each named convention?",
    "mfu": "What MFU is a measured rate of tokens, under each named convention?",
    "unfused": "How long does each operator of a layer take alone, with nothing fused or hidden?",
    "pipeline": "How long does an MLP's step take under a schedule of microbatches, to the event?",
    "kernel": "How long does a kernel of known arithmetic and bytes take, and what binds it?",
    "dot": "How long does a dot product take, and what binds it?",
    "elementwise": "How long does an operation on vectors, such as a sum, take, and what binds it?",
    "matmul": "How long does a matrix product take, and from which batch is it compute bound?",
    "batched_matmul": "How long does a product take in which every row has its own weights?",
    "sharded_matmul": (
        "Which way of multiplying sharded matrices is fastest, and from which width is it free?"
    ),
    "attention": (
        "How long do attention's scores take, and from which length are they compute bound?"
    ),
    "attention_share": (
        "From which length do attention's scores take more arithmetic than the matrices?"
    ),
    "array": "How much of an array does each device of a mesh hold, and how many copies are there?",
    "contraction": "How much arithmetic is a contraction, and how does a mesh share it?",
    "torus": "How long does a collective on a torus take, and is it bound by hops or by bytes?",
    "tree": "How long does a collective over a tree of switches take, and which level binds?",
    "fabric": "How much bandwidth do switches have, and how much is each node's?",
    "systolic": "How fast do systolic matrix units compute?",
    "chain": "How long does data take through a chain of stages that overlap?",
    "transformer": (
        "How many parameters, how much arithmetic and how large a cache has a transformer?"
    ),
    "kv_cache": "How many bytes of keys and values do sequences leave in the cache?",
    "training_run": "How much arithmetic and time does a whole training take?",
    "training_memory": (
        "How much memory do weights, optimizer and kept activations of a training need?"
    ),
    "training_bounds": "How far does a training step spread before its links bind?",
    "pipeline_hop": "How long do the hops between pipeline stages take?",
    "pods": "How large a batch does each of several pods need?",
    "serving_roofline": (
        "How fast can a server generate at the roofline, and how many sequences does it hold?"
    ),
    "weight_sharding": (
        "Over how many accelerators do the weights of a server shard before links bind?"
    ),
    "chip": "What rates and capacities follow from the units of a chip?",
    "cluster": "What do many accelerators add up to, and what do they hold?",
    "linear_layer": (
        "How long does a linear layer take, forward and backward, and what does it wait for?"
    ),
    "whole_batch": (
        "How well does a given split train a run of so many FLOP, and what does it wait for?"
    ),
    "limits": (
        "How well can a training run of so many FLOP use its machines, and when is it too long?"
    ),
    "thresholds": (
        "How large may a training run be before it uses less than a given share of its machines?"
    ),
    "growth": (
        "How well does a run use its machines when their number grows by one degree at a time?"
    ),
    "moe_step": (
        "How long does a step of a transformer with routed experts take, by an older model?"
    ),
    "closed_form": (
        "How well are so many devices used, with degrees in closed form, by an older model?"
    ),
}
