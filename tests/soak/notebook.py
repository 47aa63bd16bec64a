"""A function under ``jit`` whose state changes repeatedly, as in a notebook.

``SOURCE`` is the function and its state. ``CELLS`` change them; ``cell`` chooses one.
"""

SOURCE = """
class Model:
    bias = 0.5
    def __init__(self):
        self.layers = [tensor(1), tensor(2)]
        self.options = {"scale": 1.5, "on": True}
    def act(self, y):
        return pg.sin(y)

class Near(Model):
    bias = 0.25

RATE, FAIL, VALUES = 0.5, False, np.ones(3, np.float32)
PARAMS = {"w": tensor(3), "b": [tensor(4)]}
MATRIX, AT = eye(1.0), 1
MODEL, VARIABLE = Model(), pg.Variable(0.0)

def helper(y):
    return y * RATE

def F(x):
    runs()
    if FAIL:
        raise RuntimeError(f"the state is {FAIL}")
    y = helper(x) * PARAMS["w"] + PARAMS["b"][0] + MODEL.bias
    for layer in MODEL.layers:
        y = pg.tanh(y * layer)
    if MODEL.options["on"]:
        y = MODEL.act(y) * MODEL.options["scale"]
    try:
        y = y + pg.sum(pg.linalg.cholesky(MATRIX))
    except ValueError:
        y = y - 1.0
    y = y + pg.gather(tensor(5), AT) + pg.asarray(VALUES)
    VARIABLE.assign(VARIABLE * 0.5 + pg.mean(y))
    return y + pg.grad(lambda w: pg.sum(helper(w) * w))(PARAMS["w"])
"""
# ``$s`` is a number, and ``$i`` an integer.
CELLS = [
    "RATE = $s",
    "VALUES[1] = $s",
    "VALUES = array($i)",
    "PARAMS['w'] = PARAMS['w'] - 0.25 * tensor($i)",
    "PARAMS['w'][0] = $s",
    "PARAMS['b'] = [tensor($i)]",
    "PARAMS = {'b': [tensor($i)], 'w': tensor($i)}",
    "MODEL.bias = $s",
    "vars(MODEL).pop('bias', None)",
    "Model.bias = $s",
    "MODEL.__class__ = Near",
    "MODEL.__class__ = Model",
    "MODEL = Model()",
    "MODEL.layers[0] = tensor($i)",
    "MODEL.layers = MODEL.layers[:2] + [tensor($i)]",
    "MODEL.layers.reverse()",
    "MODEL.options['scale'] = $s",
    "MODEL.options = {'on': $i % 2 == 0, 'scale': $s}",
    "Model.act = lambda self, y: pg.cos(y) * $s",
    "MODEL.act = lambda y: y + $s",
    "vars(MODEL).pop('act', None)",
    "def helper(y): return y * RATE + $s",
    "def helper(y, by=$s): return y - by",
    "helper.__code__ = (lambda y: y * $s).__code__",
    "MATRIX = eye($s)",
    "VARIABLE.assign(pg.asarray(0.5))",
    "VARIABLE = pg.Variable(0.25)",
    "FAIL = True",
    "AT = 7",
]
REPAIRS = ["FAIL = False", "AT = $i % 3"]


def cell(rng):
    """Return a line that changes the state, or lines that repair it."""
    text = rng.choice([*CELLS, *REPAIRS * 3])
    while "$" in text:
        text = text.replace("$s", str(rng.randrange(-8, 9) / 4), 1)
        text = text.replace("$i", str(rng.randrange(20)), 1)
    return text
