"""The ways in which random programs read an expression."""

from .grammar import parsed

# Ways to read the expression $e.
READERS = parsed("""
> $e

def r$n():
    return $e
> r$n()
~ r$n = lambda: $v
~ r$n.__code__ = (lambda: $v).__code__
~ def r$n(): return $v

r$n = lambda: $e
> r$n()
~ r$n = partial(identity, $v)

class C$n:
    @property
    def v(self):
        return $e
O$n = C$n()
> O$n.v
~ C$n.v = property(lambda self: $v)
~ C$n.v = $v
~ O$n.__dict__["v"] = $v

class C$n:
    v = $e
O$n = C$n()
> O$n.v
~ C$n.v = $v
~ O$n.v = $v
~ del O$n.v
~ O$n.__dict__["v"] = $v

class B$n:
    v = $e
class C$n(B$n):
    pass
class D$n(C$n):
    v = $v
class E$n(Plain):
    v = $v
O$n = C$n()
> O$n.v
~ B$n.v = $v
~ C$n.v = $v
~ O$n.v = $v
~ O$n.__class__ = D$n
~ O$n = D$n()
~ C$n.v = property(lambda self: $v)
~ C$n.__bases__ = (E$n,)
~ del C$n.v

class C$n:
    v = $e
> C$n().v
~ C$n.v = $v
~ C$n.__init__ = lambda self: setattr(self, "v", $v)

class C$n:
    def __init__(self):
        self.v = $e
> C$n().v
~ C$n.__init__ = lambda self: setattr(self, "v", $v)
~ C$n.v = property(lambda self: $v, lambda self, v: None)

class C$n:
    def __getattr__(self, name):
        return $e
O$n = C$n()
> O$n.v
~ O$n.v = $v
~ C$n.v = $v
~ C$n.__getattr__ = lambda self, name: $v

class C$n:
    def __call__(self):
        return $e
O$n = C$n()
> O$n()
~ C$n.__call__ = lambda self: $v
~ O$n.__call__ = lambda: $v

class C$n:
    def __getitem__(self, key):
        return $e
O$n = C$n()
> O$n[0]
~ C$n.__getitem__ = lambda self, key: $v

class C$n:
    def __iter__(self):
        yield $e
O$n = C$n()
> next(iter(O$n))
~ C$n.__iter__ = lambda self: iter([$v])

class G$n:
    def __get__(self, of, cls):
        return $e
class C$n:
    v = G$n()
O$n = C$n()
> O$n.v
~ G$n.__get__ = lambda self, of, cls: $v
~ O$n.v = $v
~ C$n.v = $v

class C$n:
    @staticmethod
    def v():
        return $e
> C$n.v()
~ C$n.v = lambda: $v
~ C$n.v = staticmethod(lambda: $v)

class C$n:
    @classmethod
    def v(cls):
        return $e if cls.flag else $v
    flag = True
> C$n.v()
~ C$n.flag = False
~ C$n.flag = True

class C$n:
    @cached_property
    def v(self):
        return $e
O$n = C$n()
> O$n.v
~ O$n.v = $v
~ O$n.__dict__.pop("v", None)
~ O$n = C$n()

@dataclass
class C$n:
    v: object = None
O$n = C$n($e)
> O$n.v
~ O$n.v = $v
~ C$n.v = $v
~ del O$n.v

O$n = set_up(Plain(), v=$e)
N$n = "v"
> getattr(O$n, N$n)
~ O$n.v = $v
~ O$n.w, N$n = $v, "w"
~ N$n = "v"

O$n = set_up(Plain(), v=$e)
> vars(O$n)["v"]
~ O$n.v = $v
~ O$n.__dict__ = {"v": $v}

O$n = set_up(Plain(), v=$e)
> getattr(O$n, "w", O$n.v)
~ O$n.v = $v
~ O$n.w = $v
~ Plain.w = $v
~ del O$n.w

O$n = set_up(Plain(), v=$e)
> (O$n.w if hasattr(O$n, "w") else O$n.v)
~ O$n.v = $v
~ O$n.w = $v
~ del O$n.w

def r$n(*, v=$e):
    return v
> r$n()
~ r$n.__kwdefaults__ = {"v": $v}
~ r$n.__kwdefaults__["v"] = $v

def r$n(v=$e):
    return v
> r$n()
~ r$n.__defaults__ = ($v,)

def r$n():
    return r$n.v
r$n.v = $e
> r$n()
~ r$n.v = $v
~ del r$n.v

r$n = partial(identity, v=$e)
> r$n()
~ r$n = partial(identity, v=$v)
~ r$n.keywords["v"] = $v

> [$e for _ in range(1)][0]

> (lambda: $e)()

O$n = set_up(Plain(), v=$e)
> attrgetter("v")(O$n)
~ O$n.v = $v
~ del O$n.v

class C$n:
    v = $e
O$n = C$n()
> type(O$n).v
~ C$n.v = $v
~ O$n.v = $v
~ O$n.__class__ = set_up(type("C$n", (Plain,), {}), v=$v)

class T$n(type):
    v = $e
class C$n(metaclass=T$n):
    pass
> C$n.v
~ T$n.v = $v
~ C$n.v = $v

class C$n(namedtuple("N", "v w")):
    pass
O$n = C$n($e, 0.5)
> O$n.v
~ O$n = O$n._replace(v=$v)
~ O$n = C$n($v, 0.5)

def r$n(*args, **kwargs):
    return args[0] if args else kwargs["v"]
P$n = [$e]
> r$n(*P$n)
~ P$n = []
~ P$n[:] = [$v]
~ r$n = lambda *args: $v

O$n = SimpleNamespace(inner=SimpleNamespace(v=$e))
def r$n(of=O$n):
    return of.inner.v
> r$n()
~ O$n.inner.v = $v
~ O$n.inner = SimpleNamespace(v=$v)
~ O$n = SimpleNamespace(inner=SimpleNamespace(v=$v))
""")
