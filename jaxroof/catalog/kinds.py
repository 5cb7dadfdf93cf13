"""The kinds of entries of the catalogue, and what an entry of each may hold."""

FORMATS = ("bf16", "fp8", "fp4", "int8", "fp32")

SINGULAR = {
    "models": "model",
    "systems": "system",
    "mlps": "mlp",
    "architectures": "architecture",
    "chips": "chip",
    "software": "software",
}
MODELS = ("models", "architectures")  # kinds that people call models
TAKEN_FOR = {  # kind -> the other kind that people call models, and what is wrong with it here
    "models": (
        "architectures",
        "a model of today: ask with --estimator training; here expected bare layers",
    ),
    "architectures": (
        "models",
        "bare layers, a model of the study: ask with --estimator published (in a file: "
        'estimator = "published"); here expected a whole model',
    ),
}
TEXTS = ("title", "source", "note", "peaks_source")
ALSO = {
    "systems": ["peaks", "peaks_source", "chip", "nics_per_node"],
    "chips": ["systems", "ranges", "bound", "unseen"],
}
