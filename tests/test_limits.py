"""The memory and the disk that a question may take: what there is, and what the user allows."""

import pathlib

import pytest

from jaxroof import limits
from jaxroof.errors import InputError


def machine(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 64000000 kB\nMemAvailable: 32000000 kB\n"}
V1 = "sys/fs/cgroup/memory/"
GROUPS = [  # files of the system, bytes that are left
    ({}, 32e9 * 1.024),
    (  # a container of version 2, whose parent leaves less; its file cache is free
        {
            "proc/self/cgroup": "0::/outer/inner\n",
            "sys/fs/cgroup/outer/inner/memory.max": "9000000000\n",
            "sys/fs/cgroup/outer/inner/memory.current": "1000000000\n",
            "sys/fs/cgroup/outer/memory.max": "5000000000\n",
            "sys/fs/cgroup/outer/memory.current": "4000000000\n",
            "sys/fs/cgroup/outer/memory.stat": "anon 1\ninactive_file 500000000\n",
        },
        1.5e9,
    ),
    (  # without a limit
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "max\n",
            "sys/fs/cgroup/memory.current": "4000000000\n",
        },
        32e9 * 1.024,
    ),
    (  # version 1, seen from inside: its files stand at the top
        {
            "proc/self/cgroup": "5:cpu:/\n4:memory:/docker/0123\n",
            f"{V1}memory.limit_in_bytes": "3000000000\n",
            f"{V1}memory.usage_in_bytes": "1000000000\n",
            f"{V1}memory.stat": "total_inactive_file 250000000\n",
        },
        2.25e9,
    ),
]


@pytest.mark.parametrize(("files", "left"), GROUPS)
def test_a_container_leaves_what_its_limit_says(files, left, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_in_the_process", lambda root: [])
    assert limits.available_memory(machine(tmp_path, MEMINFO | files)) == pytest.approx(left)


def test_the_limit_of_the_process_counts(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2e9, 2e9))
    files = {**MEMINFO, "proc/self/statm": "1000 900 800\n"}
    left = limits.available_memory(machine(tmp_path, files))
    assert left == pytest.approx(2e9 - 1000 * resource.getpagesize())


def test_a_machine_that_says_nothing_has_no_limit_but_the_stated_one(monkeypatch):
    monkeypatch.delenv(limits.MEMORY, raising=False)
    monkeypatch.setattr(limits, "available_memory", lambda: float("inf"))
    assert limits.memory_limit() == limits.MOST


@pytest.mark.parametrize("what", ["memory", "disk"])
def test_what_is_too_large_is_one_line_that_names_the_variable(what, monkeypatch, tmp_path):
    variable = {"memory": limits.MEMORY, "disk": limits.DISK}[what]
    check = {
        "memory": lambda size: limits.check_memory("10 points", size, "expected fewer"),
        "disk": lambda size: limits.check_disk("10 points", size, tmp_path, "expected fewer"),
    }[what]
    monkeypatch.setenv(variable, "1 kB")
    check(1000)
    with pytest.raises(limits.TooLarge) as told:
        check(1001)
    said = f"10 points take 1.001 kB; the limit is 1 kB of {what} (set {variable} for another); "
    assert str(told.value) == said + "expected fewer"
    for wrong in ("much", "-1 B"):
        monkeypatch.setenv(variable, wrong)
        with pytest.raises(InputError, match=variable):
            check(1)


def test_an_error_that_is_not_of_memory_stays_itself():
    error = RuntimeError("INVALID_ARGUMENT: no")
    assert limits.out_of_memory(error, "said") is error
    found = limits.out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: 9\nbytes"), "run again", "a.nc")
    assert str(found) == "a.nc: out of memory (9 bytes); run again"
