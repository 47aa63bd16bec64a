"""Changes of the items of containers, for all kinds of classes."""

import array
import collections
import heapq
import itertools
import types

import numpy as np
import plugrad as pg

from .harness import pattern, sets_attr, sets_item

KIND = "containers"


def by_rate(cfg):
    """Return a function that multiplies by the item "rate"."""
    return lambda x: x * cfg["rate"]


def by_first(items):
    """Return a function that multiplies by the first item."""
    return lambda x: x * float(items[0])


@pattern(KIND)
def an_item_of_a_dict():
    cfg = {"rate": 2.0}
    return by_rate(cfg), sets_item(cfg, "rate", 3.0), sets_item(cfg, "rate", 4.0)


@pattern(KIND)
def an_item_of_nested_containers():
    cfg = {"layers": [{"rate": (1.0, [2.0])}]}

    def f(x):
        return x * cfg["layers"][0]["rate"][1][0]

    return (
        f,
        sets_item(cfg["layers"][0]["rate"][1], 0, 3.0),
        sets_item(cfg["layers"], 0, {"rate": (1.0, [4.0])}),
    )


@pattern(KIND)
def an_item_of_an_ordered_dict():
    cfg = collections.OrderedDict(rate=2.0)
    return by_rate(cfg), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def the_order_of_an_ordered_dict():
    cfg = collections.OrderedDict(a=2.0, b=3.0)
    return lambda x: x * next(iter(cfg.values())), lambda: cfg.move_to_end("a")


@pattern(KIND)
def a_new_key_of_a_defaultdict():
    cfg = collections.defaultdict(lambda: 2.0)
    return lambda x: x * cfg["rate"], sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def the_factory_of_a_defaultdict():
    cfg = collections.defaultdict(lambda: 2.0)

    def f(x):
        y = x * cfg["rate"]
        del cfg["rate"]
        return y

    return f, sets_attr(cfg, "default_factory", lambda: 3.0)


@pattern(KIND)
def an_item_of_a_dict_subclass():
    class Config(dict):
        pass

    cfg = Config(rate=2.0)
    return by_rate(cfg), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_key_hides_the_result_of_missing():
    class Config(dict):
        def __missing__(self, key):
            return 2.0

    cfg = Config()
    return by_rate(cfg), sets_item(cfg, "rate", 3.0), lambda: cfg.pop("rate")


@pattern(KIND)
def a_dict_subclass_with_attribute_access():
    class Config(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    cfg = Config(rate=2.0)
    return lambda x: x * cfg.rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_list_subclass():
    class Layers(list):
        rate = 2.0

    layers = Layers([1.0])
    return lambda x: x * layers.rate * layers[0], sets_attr(layers, "rate", 3.0)


@pattern(KIND)
def an_item_of_a_list_subclass():
    class Layers(list):
        pass

    layers = Layers([2.0])
    return by_first(layers), sets_item(layers, 0, 3.0)


@pattern(KIND)
def an_item_of_a_tuple_subclass():
    class Pair(tuple):
        pass

    pair = Pair(([2.0], 1.0))
    return lambda x: x * pair[0][0], sets_item(pair[0], 0, 3.0)


@pattern(KIND)
def a_member_of_a_set():
    modes = {"slow"}
    return (
        lambda x: x * 3.0 if "fast" in modes else x,
        lambda: modes.add("fast"),
        lambda: modes.discard("fast"),
    )


@pattern(KIND)
def a_member_of_a_set_subclass():
    class Modes(set):
        pass

    modes = Modes()
    return lambda x: x * float(len(modes)), lambda: modes.add("fast")


@pattern(KIND)
def an_item_of_a_deque():
    window = collections.deque([2.0, 5.0])
    return by_first(window), sets_item(window, 0, 3.0)


@pattern(KIND)
def a_deque_rotates():
    window = collections.deque([2.0, 5.0])
    return by_first(window), window.rotate, window.rotate


@pattern(KIND)
def a_full_deque_drops_an_item():
    window = collections.deque([2.0, 5.0], maxlen=2)
    return lambda x: x * sum(window), lambda: window.append(1.0)


@pattern(KIND)
def an_item_of_a_bytearray():
    raw = bytearray([2, 5])
    return by_first(raw), sets_item(raw, 0, 3)


@pattern(KIND)
def an_item_behind_a_memoryview():
    raw = bytearray([2, 5])
    return by_first(memoryview(raw)), sets_item(raw, 0, 3)


@pattern(KIND)
def an_item_of_an_array():
    raw = array.array("d", [2.0])
    return by_first(raw), sets_item(raw, 0, 3.0), lambda: raw.insert(0, 4.0)


@pattern(KIND)
def an_item_of_a_numpy_array():
    table = np.array([2.0, 5.0])
    return by_first(table), sets_item(table, 0, 3.0)


@pattern(KIND)
def an_item_of_an_object_array():
    table = np.array([2.0, "b"], dtype=object)
    return by_first(table), sets_item(table, 0, 3.0)


@pattern(KIND)
def a_list_inside_an_object_array():
    table = np.empty(1, dtype=object)
    table[0] = [2.0]
    return lambda x: x * table[0][0], sets_item(table[0], 0, 3.0)


@pattern(KIND)
def a_field_of_a_structured_array():
    table = np.zeros(1, dtype=[("rate", "f4"), ("more", "i4")])
    table["rate"] = 2.0
    return lambda x: x * float(table["rate"][0]), sets_item(table["rate"], 0, 3.0)


@pattern(KIND)
def a_numpy_array_behind_a_view():
    base = np.arange(6.0)
    view = base[::2]
    return lambda x: x + pg.asarray(view.astype("f4")), sets_item(base, 2, 9.0)


@pattern(KIND)
def the_shape_of_a_numpy_array():
    table = np.arange(6.0)

    def change():
        table.resize((2, 3), refcheck=False)

    return lambda x: x * float(len(table)), change


@pattern(KIND)
def a_mapping_proxy():
    cfg = {"rate": 2.0}
    return by_rate(types.MappingProxyType(cfg)), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def the_proxy_of_a_class():
    class Model:
        rate = 2.0

    return lambda x: x * vars(Model)["rate"], sets_attr(Model, "rate", 3.0)


@pattern(KIND)
def a_view_of_the_values_of_a_dict():
    cfg = {"rate": 2.0}
    values = cfg.values()
    return lambda x: x * sum(values), sets_item(cfg, "more", 3.0)


@pattern(KIND)
def a_view_of_the_keys_of_a_dict():
    cfg = {"rate": 2.0}
    keys = cfg.keys()
    return lambda x: x * float(len(keys)), sets_item(cfg, "more", 3.0)


@pattern(KIND)
def a_view_of_the_items_of_a_dict():
    cfg = {"rate": 2.0}
    items = cfg.items()
    return lambda x: x * dict(items)["rate"], sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_counter():
    votes = collections.Counter(a=2)
    return (
        lambda x: x * float(votes["a"] + votes["b"]),
        lambda: votes.update("b"),
        lambda: votes.subtract("a"),
    )


@pattern(KIND)
def a_nearer_map_of_a_chain_map():
    near = {}
    far = {"rate": 2.0}
    cfg = collections.ChainMap(near, far)
    return by_rate(cfg), sets_item(far, "rate", 3.0), sets_item(near, "rate", 4.0)


@pattern(KIND)
def the_maps_of_a_chain_map():
    cfg = collections.ChainMap({"rate": 2.0})
    return by_rate(cfg), lambda: cfg.maps.insert(0, {"rate": 3.0})


@pattern(KIND)
def a_user_dict():
    cfg = collections.UserDict(rate=2.0)
    return by_rate(cfg), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_user_list():
    items = collections.UserList([2.0])
    return by_first(items), sets_item(items, 0, 3.0), sets_attr(items, "data", [4.0])


@pattern(KIND)
def a_heap():
    heap = [2.0, 5.0]
    return by_first(heap), lambda: heapq.heappush(heap, 1.0)


@pattern(KIND)
def the_order_of_a_dict():
    cfg = {"a": 2.0, "b": 3.0}
    return lambda x: (x - next(iter(cfg.values()))) * 2.0, moves_key_to_end(cfg, "a")


def moves_key_to_end(cfg, key):
    return lambda: cfg.__setitem__(key, cfg.pop(key))


@pattern(KIND)
def a_list_that_contains_itself():
    items = [2.0]
    items.append(items)
    return lambda x: x * items[1][1][0], sets_item(items, 0, 3.0)


@pattern(KIND)
def a_list_that_two_names_share():
    shared = [2.0]
    first = {"items": shared}
    second = {"items": shared}
    return (
        lambda x: x * first["items"][0] + second["items"][0],
        sets_item(shared, 0, 3.0),
        sets_item(second, "items", [4.0]),
    )


@pattern(KIND)
def an_object_as_a_key():
    class Layer:
        rate = 2.0

    layer = Layer()
    table = {layer: 1.0}
    return lambda x: x * sum(k.rate * v for k, v in table.items()), sets_attr(
        layer, "rate", 3.0
    )


@pattern(KIND)
def a_member_of_a_frozenset_changes():
    class Layer:
        rate = 2.0

    layers = frozenset([Layer(), Layer()])
    first = next(iter(layers))
    return lambda x: x * sum(layer.rate for layer in layers), sets_attr(
        first, "rate", 3.0
    )


@pattern(KIND)
def a_list_becomes_a_tuple():
    cfg = {"shape": [2.0, 1.0]}

    def f(x):
        return x * 2.0 if isinstance(cfg["shape"], list) else x

    return f, sets_item(cfg, "shape", (2.0, 1.0))


@pattern(KIND)
def a_captured_chain_of_lists():
    parts = [[2.0], [5.0]]
    return (
        lambda x: x * sum(itertools.chain.from_iterable(parts)),
        lambda: parts[1].append(1.0),
        parts.pop,
    )
