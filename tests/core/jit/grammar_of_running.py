"""The code around the lines of random programs.

Contents: ``RUNNERS``, code around lines; ``STATEFUL_PARTS``, parts that do more than
read one value; ``HOSTS``, definitions of the function that ``jit`` gets.
"""

from .grammar import parsed

# Code that runs ``$block``. If the set-up contains ``$e``, the lines read ``v``.
RUNNERS = parsed("""
> $block

def h$n(y):
    $block
    return y
> y = h$n(y)
~ h$n = lambda y: y * $s
~ h$n.__code__ = (lambda y: y - $s).__code__
~ def h$n(y): return y + $s

def h$n(y, v=$e):
    $block
    return y
> y = h$n(y)
~ h$n.__defaults__ = ($v,)

def m$n(v):
    def inner(y):
        $block
        return y
    return inner
h$n = m$n($e)
> y = h$n(y)
~ h$n = m$n($v)
~ h$n.__closure__[0].cell_contents = $v

> def i$n(y):
>     $block
>     return y
> y = i$n(y)

class C$n:
    def go(self, y):
        $block
        return y
O$n = C$n()
> y = O$n.go(y)
~ C$n.go = lambda self, y: y * $s
~ O$n.go = lambda y: y + $s
~ del O$n.go
~ O$n = C$n()

class C$n:
    def go(self, y):
        $block
        return y
class D$n(C$n):
    def go(self, y):
        return super().go(y) * 0.5
O$n = C$n()
> y = O$n.go(y)
~ O$n.__class__ = D$n
~ O$n = D$n()
~ C$n.go = lambda self, y: y * $s
~ D$n.go = lambda self, y: y - $s
~ del D$n.go

class C$n:
    def __init__(self):
        self.v = $e
    def __call__(self, y):
        v = self.v
        $block
        return y
O$n = C$n()
> y = O$n(y)
~ O$n.v = $v
~ O$n = C$n()
~ C$n.__call__ = lambda self, y: y * $s

class C$n:
    def __getitem__(self, y):
        $block
        return y
O$n = C$n()
> y = O$n[y]
~ C$n.__getitem__ = lambda self, y: y * $s

class C$n:
    def __mul__(self, y):
        $block
        return y
O$n = C$n()
> y = O$n * y
~ C$n.__mul__ = lambda self, y: y * $s
~ O$n = $s

class C$n:
    def __enter__(self):
        return self
    def __exit__(self, *exception):
        return bool(self.quiet)
    quiet = False
O$n = C$n()
> with O$n:
>     $block
~ O$n.quiet = True
~ C$n.quiet = True

def d$n(f):
    @wraps(f)
    def inner(y):
        return f(y) * 0.5
    return inner
@d$n
def h$n(y):
    $block
    return y
> y = h$n(y)
~ h$n.__wrapped__.__code__ = (lambda y: y * $s).__code__
~ h$n = h$n.__wrapped__

def g$n(y):
    $block
    yield y
> for y in g$n(y):
>     y = y + 0.5
~ def g$n(y): yield y * $s

> for i in range(2):
>     $block
>     y = y * 0.5

> try:
>     $block
> except (ValueError, IndexError, AttributeError, KeyError):
>     y = y * 0.25

N$n = True
> if N$n:
>     $block
~ N$n = False
~ N$n = True
~ del N$n

H$n = {}
def h$n(y):
    $block
    return y
H$n["h"] = h$n
> y = H$n["h"](y)
~ H$n["h"] = lambda y: y * $s
~ H$n["h"] = h$n
~ h$n.__code__ = (lambda y: y - $s).__code__

def h$n(y):
    $block
    return y
> y = y + pg.grad(lambda w: pg.sum(h$n(w)))(y)
~ h$n = lambda y: y * $s

def h$n(y):
    $block
    return y
> y = pg.vmap(h$n)(y)
~ h$n = lambda y: y * $s

N$n = 1.5
> if flag:
>     $block
> else:
>     y = y * N$n
~ N$n = $s
""")

# Parts of a function that do more than read one value.
STATEFUL_PARTS = parsed("""
N$n = False
def h$n(y):
    if N$n:
        raise ValueError(f"state {N$n}")
    return y * 2.0
> try:
>     y = h$n(y)
> except ValueError:
>     y = y - 0.5
> finally:
>     y = y * 0.5
~ N$n = True
~ N$n = False
~ def h$n(y): raise ValueError("new")

N$n = False
> if N$n:
>     raise RuntimeError(f"state {N$n}")
~ N$n = True
~ N$n = False

O$n = set_up(Plain(), cache=None)
> if O$n.cache is None:
>     O$n.cache = tensor(7)
> y = y * O$n.cache
~ O$n.cache = None
~ O$n.cache = tensor($i)
~ del O$n.cache

O$n = Plain()
> if not hasattr(O$n, "w"):
>     O$n.w = pg.mean(y)
> y = y + O$n.w
~ del O$n.w
~ O$n.w = tensor($i)

O$n = Plain()
> try:
>     y = y * O$n.w
> except AttributeError:
>     O$n.w = 1.5
~ del O$n.w
~ O$n.w = $s

D$n = {}
> y = y * D$n.setdefault("w", 0.5)
~ D$n.clear()
~ D$n["w"] = $s

> y = y + pg.random.normal(y.shape)

> y = pg.where(pg.random.uniform(y.shape) > 0.5, y, -y)

N$n = 0
> global N$n
> N$n += 1
> y = y * N$n

O$n = set_up(Plain(), n=0)
> O$n.n += 1
> if O$n.n % 3 == 0:
>     y = -y
~ O$n.n = 0

D$n = {"n": 0}
> D$n["n"] += 1
~ D$n["n"] = 0

L$n = []
> L$n.append(len(L$n))
> y = y + L$n[-1]
~ L$n.clear()

O$n = set_up(Plain(), w=tensor(8))
> O$n.w = O$n.w * 0.5
> y = y + O$n.w
~ O$n.w = tensor($i)

W$n = tensor(9)
> global W$n
> y = y + W$n
> W$n = W$n - 0.25
~ W$n = tensor($i)

L$n = [tensor(5)]
> y = y + L$n[0]
> L$n[0] = L$n[0] * 0.5
~ L$n[0] = tensor($i)

W$n = tensor(6)
> y = y + W$n
> W$n[0] = 0.5
~ W$n[0] = $s

I$n = itertools.count(1)
> y = y * next(I$n)

I$n = iter([1.5, 0.5, 2.5])
> y = y * next(I$n, 1.0)
~ I$n = iter([$s])

> if pg.sum(y).item() > 0:
>     y = -y

> y = y + float(y.numpy().max())

N$n = False
> if N$n:
>     y = y * pg.max(y).item()
~ N$n = True
~ N$n = False

> try:
>     y = y + pg.sum(pg.linalg.cholesky(eye(1.0) * pg.sum(x)))
> except ValueError:
>     y = y - 1.0

V$n = pg.Variable(tensor(4))
> loss, found = pg.variable_grads(lambda: pg.mean((V$n - y) ** 2), [V$n])
> V$n.assign(V$n - 0.1 * found[V$n])
> y = y * loss
~ V$n.assign(tensor($i))
~ V$n = pg.Variable(tensor($i))

V$n = pg.Variable(tensor(4))
> V$n.assign(V$n + 0.5)
> y = y * V$n
~ V$n[0] = $s

W$n = {"a": tensor(1), "b": [tensor(2)]}
> loss = lambda w: pg.sum(w["a"] * w["b"][0] * y)
> y = y + pg.grad(loss)(W$n)["a"]
~ W$n = tree_map(lambda w: w * 0.5, W$n)
~ W$n["a"] = W$n["a"] - 0.25
~ W$n["b"][0] = tensor($i)
~ W$n["b"] = (tensor($i),)
~ W$n["a"][0] = $s

> y = y * max(0.5, 0.25)
~ max = lambda a, b: b
~ del max

> y = y * len([1, 2])
~ len = lambda a: $s
~ del len

M$n = set_up(ModuleType("m$n"), rate=0.5, inner=set_up(ModuleType("i"), w=tensor(2)))
> y = y * M$n.rate + M$n.inner.w
~ M$n.rate = $s
~ M$n.inner.w = tensor($i)
~ M$n.inner = Plain()
~ M$n.inner = set_up(Plain(), w=tensor($i))

class M$n(Plain):
    decay = 0.5
    def __init__(self):
        self.layers = [set_up(Plain(), w=tensor(i), on=True) for i in range(3)]
    def __call__(self, y):
        for layer in self.layers:
            y = pg.tanh(y * layer.w) if layer.on else y * self.decay
        return y
O$n = M$n()
> y = O$n(y)
~ O$n.layers[1].w = O$n.layers[1].w * 0.5
~ O$n.layers[1].on = False
~ O$n.layers[1].on = True
~ O$n.layers.reverse()
~ O$n.layers.pop()
~ O$n.layers.append(set_up(Plain(), w=tensor($i), on=True))
~ O$n.decay = $s
~ M$n.decay = $s
~ O$n.epoch = $i
~ O$n.layers[0].w[0] = $s
""")

# ``F`` is the function that jit gets; ``$block`` is its body.
HOSTS = parsed("""
def f(x, flag=False, more=None):
    $block
F = f
~ f.__defaults__ = (True, None)
~ f.__defaults__ = (False, None)
~ f.__code__ = other.__code__
~ f = other

class Host(Plain):
    gain = 0.5
    def __init__(self):
        self.shift = 1.0
    def f(self, x, flag=False, more=None):
        x = x * self.gain + self.shift
        $block
class Near(Host):
    gain = 0.25
HOST = Host()
F = HOST.f
~ HOST.shift = $s
~ HOST.gain = $s
~ Host.gain = $s
~ Host.f.__defaults__ = (True, None)
~ HOST.__class__ = Near

class Host(Plain):
    gain = tensor(4)
    def __call__(self, x, flag=False, more=None):
        x = x + self.gain
        $block
F = HOST = Host()
~ HOST.gain = tensor($i)
~ Host.gain = tensor($i)
~ HOST.gain[0] = $s
~ Host.__call__ = lambda self, x, flag=False, more=None: other(x)

def base(x, flag=False, more=None, *, scale=1.0, config=None):
    x = x * scale + config["shift"]
    $block
CONFIG = {"shift": 0.5}
F = partial(base, scale=0.5, config=CONFIG)
~ CONFIG["shift"] = $s
~ CONFIG["more"] = $s

def build(gain):
    def f(x, flag=False, more=None):
        x = x * gain
        $block
    def assign(value):
        nonlocal gain
        gain = value
    return f, assign
F, ASSIGN = build(0.5)
~ ASSIGN($s)
~ ASSIGN(tensor($i))
""")
