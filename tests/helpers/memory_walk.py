"""The memory of every stage, buffer by buffer: shares no code with the package.

Source: fact sheet distir_model, sections 4 and 8.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """Sizes of an MLP, a batch and a split; widths by layer alternate."""

    layers: int
    first: int
    hidden: int
    last: int
    inner: int
    batch: int
    data: int
    tensor: int
    stages: int
    many: int
    element: int


def visits(case: Case, t: int) -> list[tuple[int, str, int]]:
    """Return (stage, direction, microbatch) of what runs at a timestep, greedy 1F1B."""
    found = []
    for i in range(case.stages):
        ahead = min(case.many, 2 * (case.stages - i) - 1)
        back, late = t - (2 * case.stages - 1 - i), t - (2 * case.stages - i)
        if back >= 0 and back % 2 == 0 and back // 2 < case.many:
            found.append((i, "back", back // 2))
        elif i <= t < i + ahead:
            found.append((i, "on", t - i))
        elif late >= 0 and late % 2 == 0 and ahead + late // 2 < case.many:
            found.append((i, "on", ahead + late // 2))
    return found


class Walk:
    """Bytes that live on every stage, and the most that ever did."""

    def __init__(self, case: Case) -> None:
        self.case, self.each = case, case.layers // case.stages
        samples = case.element * case.batch // (case.data * case.many)
        inside = [case.hidden if layer % 2 else case.inner for layer in range(case.layers - 1)]
        width = [case.first, *inside, case.last]
        rows = [w // (case.tensor if layer % 2 else 1) for layer, w in enumerate(width[:-1])]
        columns = [w // (1 if layer % 2 else case.tensor) for layer, w in enumerate(width[1:])]
        self.out = [samples * n for n in columns]
        self.into = [samples * k for k in rows]
        self.weight = [case.element * k * n for k, n in zip(rows, columns, strict=True)]
        self.loss = samples * case.last
        self.live = [sum(self.weight[layer] for layer in self.of(i)) for i in range(case.stages)]
        self.live[0] += case.many * samples * case.first
        self.live[-1] += case.many * self.loss + 4
        self.most = list(self.live)

    def of(self, stage: int) -> range:
        return range(stage * self.each, (stage + 1) * self.each)

    def event(self, stage: int, made: int, freed: int) -> None:
        self.live[stage] += made
        self.most[stage] = max(self.most[stage], self.live[stage])
        self.live[stage] -= freed

    def forward(self, i: int, k: int) -> None:
        for layer in self.of(i):
            self.event(i, self.out[layer], 0)
            if self.case.tensor > 1 and layer % 2:
                self.event(i, self.out[layer], self.out[layer])
            self.event(i, self.out[layer], 0)
        if i == self.case.stages - 1:
            self.event(i, self.loss, 0)
            if self.case.many > 1:
                self.event(i, (k + 1) * self.loss, (k + 1) * self.loss)
            self.event(i, self.loss, self.loss)

    def backward(self, i: int, k: int) -> None:
        for layer in reversed(self.of(i)):
            out, into, weight = self.out[layer], self.into[layer], self.weight[layer]
            self.event(i, out, 2 * out)
            self.event(i, into + weight, out + (into if layer else 0))
            if self.case.tensor > 1 and layer % 2 == 0:
                self.event(i, into, into)
            if layer == 0 and self.case.many > 1:
                self.event(i, (k + 1) * into, (k + 1) * into)
            if self.case.many > 1:
                self.event(i, weight, 2 * weight if k else weight)


def peak(case: Case) -> int:
    """Return the most bytes that any stage holds at once."""
    walk = Walk(case)
    for t in range(2 * (case.many + case.stages - 1)):
        now = visits(case, t)
        for i, direction, k in now:
            (walk.forward if direction == "on" else walk.backward)(i, k)
        for i, direction, _ in now:
            other = i + 1 if direction == "on" else i - 1
            if 0 <= other < case.stages:
                message = walk.out[(min(i, other) + 1) * walk.each - 1]
                walk.live[i] -= message
                walk.event(other, message, 0)
    for i in range(case.stages if case.data > 1 else 0):
        for layer in reversed(walk.of(i)):
            walk.event(i, walk.weight[layer], walk.weight[layer])
    return max(walk.most)
