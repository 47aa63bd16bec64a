"""Random mutations of bytes, JSON values and protobuf messages."""

import copy
import json

import onnx

SIZES = [0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, 2**31, 2**63 - 1, -(2**63)]
TEXTS = ["", "x", "\0", "\x1b[2J", "é" * 3, "a" * 300, "../x", "/etc/passwd", "NaN"]
JUNK = [None, True, False, *SIZES, 2**70, 10**400, 1.5, -0.0, 1e308, float("inf")]
JUNK += [*TEXTS, [], {}, [[]], [None], {"name": 3}, [[[]]] * 5, {"": {"": []}}]


def mutated_bytes(data, rng):
    """Return a copy with some bytes replaced, removed, repeated, moved or cut off."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        start = rng.randrange(len(data))
        count = rng.choice([1, 2, 4, 8, 64])
        mutation = rng.randrange(7)
        if mutation < 3:
            data[start] = (
                rng.randrange(256) if mutation else rng.choice([0, 1, 127, 128, 255])
            )
        elif mutation == 3:
            del data[start : start + count]
        elif mutation == 4:
            data[start:start] = data[start : start + count]
        elif mutation == 5:
            source = rng.randrange(len(data))
            data[start : start + count] = data[source : source + count]
        else:
            del data[start if rng.random() < 0.2 else -1 :]
    return bytes(data)


# --- JSON ------------------------------------------------------------------------


def entries(value):
    """Yield each container in a JSON value with each of its keys."""
    stack = [value]
    while stack:
        container = stack.pop()
        items = [
            *(
                container.items()
                if isinstance(container, dict)
                else enumerate(container)
            )
        ]
        for key, part in items:
            yield container, key
            if isinstance(part, dict | list) and part:
                stack.append(part)


def mutated_json(value, rng):
    """Return a copy with some parts replaced, removed or repeated."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 2, 4])):
        found = [*entries(value)]
        if not found:
            break
        container, key = rng.choice(found)
        other, other_key = rng.choice(found)
        mutation = rng.randrange(6)
        if mutation < 2:
            container[key] = copy.deepcopy(rng.choice(JUNK))
        elif mutation == 2:
            del container[key]
        elif mutation == 3:
            container[key] = copy.deepcopy(other[other_key])
        elif mutation == 4 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif mutation == 5 and isinstance(container, dict):
            container[rng.choice([*map(str, container), *TEXTS])] = copy.deepcopy(
                container[key]
            )
    return value


def nested_json(value, rng):
    """Return JSON text to which a deeply nested part is added."""
    text = json.dumps(value)
    brackets = rng.choice(['{"a":%s}', "[%s]"])
    nested = rng.choice(["1", '"x"', "null"])
    for _ in range(rng.choice([10, 300, 5000])):
        nested = brackets % nested if len(nested) < 10_000 else nested
    return text[:-1] + f', "more": {nested}' + text[-1:]


# --- protobuf --------------------------------------------------------------------


def messages(message):
    """Return a protobuf message and all messages inside it."""
    found = [message]
    for current in found:  # the list grows
        for field, value in current.ListFields():
            if field.message_type is not None:
                found += value if field.is_repeated else [value]
    return found


def mutated_proto(data, rng):
    """Return the bytes of an ONNX model in which some fields are changed."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        found = messages(model)
        message = rng.choice(found)
        field = rng.choice(message.DESCRIPTOR.fields)
        same_type = [other for other in found if other.DESCRIPTOR is message.DESCRIPTOR]
        if field.is_repeated:
            _change_repeated(getattr(message, field.name), field, rng)
        elif field.message_type is not None or rng.random() < 0.3:
            message.ClearField(field.name)
        elif rng.random() < 0.5:
            setattr(message, field.name, getattr(rng.choice(same_type), field.name))
        else:
            _set_random(message, field, rng)
    return model.SerializeToString()


def _change_repeated(rows, field, rng):
    """Remove or replace an element of a repeated field, or add one."""
    if field.message_type is not None:
        if not len(rows):
            rows.add()
        elif rng.random() < 0.5:
            del rows[rng.randrange(len(rows))]
        else:
            rows.add().CopyFrom(rng.choice(rows))
    elif len(rows) and rng.random() < 0.4:
        del rows[rng.randrange(len(rows))]
    elif len(rows) and rng.random() < 0.5:
        rows[rng.randrange(len(rows))] = rng.choice(rows)
    else:
        rows.append(_value(field, rng))


def _set_random(message, field, rng):
    try:
        setattr(message, field.name, _value(field, rng))
    except ValueError:  # does not fit into 32 bits, or is not in the enumeration
        message.ClearField(field.name)


def _value(field, rng):
    """Return a random value of a field's type."""
    if field.type == field.TYPE_STRING:
        return rng.choice([*TEXTS, "Identity", "Loop", "Constant", "Expand", "y"])
    if field.type == field.TYPE_BYTES:
        return rng.choice([b"", b"\xff", b"SAME_UPPER", bytes(64)])
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice([0.0, -1.0, float("inf"), float("nan")])
    if field.type in (field.TYPE_INT32, field.TYPE_ENUM):
        return rng.choice(SIZES[:9])
    return rng.choice([n for n in SIZES if n >= 0 or field.type == field.TYPE_INT64])
