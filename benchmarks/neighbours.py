"""Install unrelated distributions, or plugins, into an environment."""

from pathlib import Path

# An entry-point module with one plugin of each kind.
PLUGIN = """
from plugrad.plugin import Backend, KernelPack, GradientPack, Kernel, hookimpl

SWISH = Kernel("{name}.Swish(x)", out=lambda x: x)


def open_backend():
    raise OSError("the benchmark does not open this backend")


@hookimpl
def plugrad_backends():
    return [Backend("{name}", open=open_backend, priority=-9)]


@hookimpl
def plugrad_kernels():
    kernels = {{"{name}.Swish": lambda x: x}}
    return [KernelPack("cpu", open=lambda: kernels, contracts=[SWISH])]


@hookimpl
def plugrad_gradients():
    return [GradientPack("{name}", open=lambda: {{"Relu": {{"x": lambda dy: dy}}}})]
"""
DESCRIPTION = "A long description.\n" * 200


def write_metadata(site: Path, name: str, entry_points: str) -> None:
    """Write the metadata of an installed distribution."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\n"
    (info / "METADATA").write_text(head + DESCRIPTION)
    (info / "RECORD").write_text("")
    (info / "entry_points.txt").write_text(entry_points)


def install_unrelated(site: Path, count: int) -> None:
    """Install unrelated distributions, a third of them with entry points."""
    for i in range(count):
        text = f"[console_scripts]\nn{i} = neighbour_{i}:main\n" if i % 3 == 0 else ""
        write_metadata(site, f"neighbour-{i}", text)


def install_plugins(site: Path, count: int) -> None:
    """Install plugins, each with a backend, kernels for cpu and a gradient pack."""
    for i in range(count):
        name = f"bench{i}"
        (site / f"plugrad_{name}.py").write_text(PLUGIN.format(name=name))
        entry_points = f"[plugrad.v1]\n{name} = plugrad_{name}\n"
        write_metadata(site, f"plugrad-{name}", entry_points)
