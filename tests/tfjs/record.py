"""Write ``recorded.json``: TensorFlow.js models, and the outputs they compute.

Run ``python -m tests.tfjs.record``; it needs Node.js and ``make peers``.
"""

import json
import tempfile
from pathlib import Path

from tests.tfjs.files import write
from tests.tfjs.graphs import GRAPHS
from tests.tfjs.peer import RECORDED, peer


def main():
    """Write the file, one model per line."""
    layers = peer("layers")
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, graph) for graph in GRAPHS]
        for folder, make in zip(folders, GRAPHS.values(), strict=True):
            graph = make()
            write(folder, graph.topology, graph.arrays)
        answers = dict(zip(GRAPHS, peer("answer", *folders), strict=True))
    rows = [json.dumps(case, separators=(",", ":")) for case in layers]
    graphs = json.dumps(answers, separators=(",", ":"))
    rows = ",\n".join(rows)
    RECORDED.write_text(f'{{"layers": [\n{rows}\n],\n"graphs": {graphs}}}\n')


if __name__ == "__main__":
    main()
