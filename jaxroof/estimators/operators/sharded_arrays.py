"""What a mesh of devices holds of an array, and computes of a contraction."""

import dataclasses
import enum

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.recipe import FEEDS, Feed, example_system
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import sharding as costs
from jaxroof.formulas.matmul import contraction_flops
from jaxroof.records import Number, quantity, record


class Over(enum.Enum):
    """The mesh axes that something is sharded over."""

    NONE = "none"
    X = "x"
    Y = "y"
    Z = "z"
    XY = "xy"
    XZ = "xz"
    YZ = "yz"
    XYZ = "xyz"


# Whether X, Y and Z are used.
USED: dict[Over, tuple[float, float, float]] = {
    Over.NONE: (0.0, 0.0, 0.0),
    Over.X: (1.0, 0.0, 0.0),
    Over.Y: (0.0, 1.0, 0.0),
    Over.Z: (0.0, 0.0, 1.0),
    Over.XY: (1.0, 1.0, 0.0),
    Over.XZ: (1.0, 0.0, 1.0),
    Over.YZ: (0.0, 1.0, 1.0),
    Over.XYZ: (1.0, 1.0, 1.0),
}


@dataclasses.dataclass(frozen=True)
class ArrayRecipe:
    """The axes that an array is sharded over, and where each device reads it from."""

    over: Over = Over.X
    feed: Feed = Feed.HBM


@dataclasses.dataclass(frozen=True)
class ContractionRecipe:
    """The axes that a contraction's work is sharded over."""

    over: Over = Over.X


@record
class Mesh:
    """A mesh of devices."""

    x: Number = quantity("1", "Devices along the first axis.", whole=True, default=1.0, symbol="X")
    y: Number = quantity("1", "Devices along the second axis.", whole=True, default=1.0, symbol="Y")
    z: Number = quantity("1", "Devices along the third axis.", whole=True, default=1.0, symbol="Z")


ONE_DEVICE = Mesh()


@record
class ArrayInputs:
    """An array of up to three dimensions, the mesh that it lies on, and the machine."""

    system: System
    rows: Number = quantity("1", "Elements of the first dimension.")
    columns: Number = quantity("1", "Elements of the second dimension.", default=1.0)
    depth: Number = quantity("1", "Elements of the third, or arrays of this kind.", default=1.0)
    width: Number = quantity("B", "Bytes of one element.", default=2.0)
    mesh: Mesh = ONE_DEVICE


@record
class Array:
    """Bytes of an array and of its shards."""

    bytes: Number = quantity("B", "The whole array, once.")
    shard_bytes: Number = quantity("B", "What each device holds.")
    mesh_bytes: Number = quantity("B", "What all devices hold together.")
    devices: Number = quantity("1", "Devices of the mesh.")
    shards: Number = quantity("1", "Parts that the array is cut into.")
    copies: Number = quantity("1", "Copies of the array on the mesh.")
    load_time: Number = quantity("s", "Time in which each device reads its shard.")


@record
class ContractionInputs:
    """The sizes of all indices of a contraction, each once, and the mesh that it is computed on."""

    first: Number = quantity("1", "Size of an index.")
    second: Number = quantity("1", "Size of an index.", default=1.0)
    third: Number = quantity("1", "Size of an index.", default=1.0)
    fourth: Number = quantity("1", "Size of an index.", default=1.0)
    fifth: Number = quantity("1", "Size of an index.", default=1.0)
    sixth: Number = quantity("1", "Size of an index.", default=1.0)
    seventh: Number = quantity("1", "Size of an index.", default=1.0)
    eighth: Number = quantity("1", "Size of an index.", default=1.0)
    mesh: Mesh = ONE_DEVICE


@record
class Contraction:
    """Arithmetic of a contraction, and how a mesh shares it."""

    flops: Number = quantity("FLOP", "Arithmetic, computed once.")
    device_flops: Number = quantity("FLOP", "Arithmetic of each device.")
    mesh_flops: Number = quantity(
        "FLOP", "Arithmetic of all devices: unused axes do the same again."
    )


def _spread(mesh: Mesh, over: Over) -> tuple[Number, Number]:
    """Return the devices of a mesh, and the shards over its axes in use."""
    x, y, z = USED[over]
    used = (costs.axis_size(mesh.x, x), costs.axis_size(mesh.y, y), costs.axis_size(mesh.z, z))
    return costs.mesh_devices(mesh.x, mesh.y, mesh.z), costs.mesh_devices(*used)


def array_step(inputs: ArrayInputs, recipe: ArrayRecipe) -> Array:
    """Return what a mesh holds of an array."""
    devices, shards = _spread(inputs.mesh, recipe.over)
    whole = inputs.rows * inputs.columns * inputs.depth * inputs.width
    copies, shard = costs.copies(devices, shards), whole / shards
    return Array(
        bytes=whole,
        shard_bytes=shard,
        mesh_bytes=whole * copies,
        devices=devices,
        shards=shards,
        copies=copies,
        load_time=shard / FEEDS[recipe.feed](inputs.system),
    )


def contraction_step(inputs: ContractionInputs, recipe: ContractionRecipe) -> Contraction:
    """Return the arithmetic of a contraction on a mesh."""
    i = inputs
    flops = contraction_flops(
        [i.first, i.second, i.third, i.fourth, i.fifth, i.sixth, i.seventh, i.eighth]
    )
    devices, shards = _spread(i.mesh, recipe.over)
    each = flops / shards
    return Contraction(flops=flops, device_flops=each, mesh_flops=each * devices)


array = Estimator(
    step=array_step,
    inputs=ArrayInputs,
    recipe=ArrayRecipe(),
    name="array",
    names={"system": named.labelled_system},
    example=lambda: ArrayInputs(
        system=example_system(), rows=2048.0, columns=8192.0, mesh=Mesh(x=4.0, y=8.0, z=2.0)
    ),
    about=QUESTIONS["array"],
)
contraction = Estimator(
    step=contraction_step,
    inputs=ContractionInputs,
    recipe=ContractionRecipe(),
    name="contraction",
    example=lambda: ContractionInputs(
        first=64.0, second=128.0, third=256.0, mesh=Mesh(x=4.0, y=2.0)
    ),
    about=QUESTIONS["contraction"],
)
