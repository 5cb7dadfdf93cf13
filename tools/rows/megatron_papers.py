"""Bring the published tables of the Megatron papers into the common schema of measured rows.

python -m tools.rows.megatron_papers megatron_a100_korthikanti.csv | gzip -9n > OUT.csv.gz

Every cell is one of the table's, or blank: a time that was reported is a measured one, a time that
follows from printed FLOP/s or MFU is a derived one, and the note keeps the check and the citation.
"""

import csv
import sys

from tools.rows.common import COLUMNS

SAME = ("source", "layers", "hidden", "heads", "seq", "vocab", "precision", "tp", "pp", "dp")
RENAMED = {  # column of the schema: column of the table
    "row_id": "id",
    "params_b": "params_b",
    "system": "gpu",
    "gpus": "n_gpus",
    "gbs": "batch",
    "mbs": "microbatch",
    "vp": "interleave",
    "recompute": "recompute",
    "zero_fsdp": "zero_stage",
    "measured_tflops_per_gpu": "tflops_per_gpu_reported",
    "derived_step_time_s": "batch_time_s",
    "derived_basis": "batch_time_kind",
    "source_url": "cite",
    "note": "check",
}
ZERO_3 = "narayanan2021, ZeRO-3"  # DeepSpeed, which its Megatron is compared with


def common(row: dict[str, str]) -> dict[str, str]:
    """Return a row of the table in the common schema."""
    made = {name: row[name] for name in SAME}
    made |= {name: row[column] for name, column in RENAMED.items()}
    made["task"], made["model"] = "pretrain", f"GPT {row['model']}"
    made["seqpar"] = {"True": "yes", "False": "no"}[row["seqpar"]]
    made["zero_fsdp"] = {"0": "none", "3": "zero_stage 3"}[row["zero_stage"]]
    if row["zero_stage"] == "3":
        made["source"] = ZERO_3
    if row["mfu_reported_pct"]:
        made["measured_mfu"] = f"{float(row['mfu_reported_pct']) / 100.0:.6g}"
    reported = row["batch_time_kind"] == "reported"
    made["measured_step_time_s"] = row["batch_time_s"] if reported else ""
    made["note"] = f"{row['table']}: {row['check']}".rstrip(": ")
    return made


def main() -> None:
    """Print the table in the common schema."""
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        rows = [common(row) for row in csv.DictReader(file)]
    columns = [name for name in COLUMNS if any(row.get(name) for row in rows)]
    written = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
    written.writeheader()
    written.writerows({name: row.get(name, "") for name in columns} for row in rows)


if __name__ == "__main__":
    main()
