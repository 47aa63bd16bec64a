"""Files that are changed at random: their bytes, values of JSON, parts of protobuf."""

import copy
import json

import onnx

SIZES = [0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, 2**31, 2**63 - 1, -(2**63)]
TEXTS = ["", "x", "\0", "\x1b[2J", "é" * 3, "a" * 300, "../x", "/etc/passwd", "NaN"]
JUNK = [None, True, False, *SIZES, 2**70, 10**400, 1.5, -0.0, 1e308, float("inf")]
JUNK += [*TEXTS, [], {}, [[]], [None], {"name": 3}, [[[]]] * 5, {"": {"": []}}]


def mutated_bytes(data, rng):
    """Return bytes of which some are replaced, removed, doubled, moved or cut off."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        at = rng.randrange(len(data))
        count = rng.choice([1, 2, 4, 8, 64])
        how = rng.randrange(7)
        if how < 3:
            data[at] = rng.randrange(256) if how else rng.choice([0, 1, 127, 128, 255])
        elif how == 3:
            del data[at : at + count]
        elif how == 4:
            data[at:at] = data[at : at + count]
        elif how == 5:
            other = rng.randrange(len(data))
            data[at : at + count] = data[other : other + count]
        else:
            del data[at if rng.random() < 0.2 else -1 :]
    return bytes(data)


# --- JSON ------------------------------------------------------------------------


def places(value):
    """Yield each container of a JSON value, with a key of it."""
    stack = [value]
    while stack:
        one = stack.pop()
        rows = [*(one.items() if isinstance(one, dict) else enumerate(one))]
        for key, part in rows:
            yield one, key
            if isinstance(part, dict | list) and part:
                stack.append(part)


def mutated_json(value, rng):
    """Return a JSON value with parts that are replaced, removed, doubled or swapped."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 2, 4])):
        rows = [*places(value)]
        if not rows:
            break
        box, key = rng.choice(rows)
        other, there = rng.choice(rows)
        how = rng.randrange(6)
        if how < 2:
            box[key] = copy.deepcopy(rng.choice(JUNK))
        elif how == 2:
            del box[key]
        elif how == 3:
            box[key] = copy.deepcopy(other[there])
        elif how == 4 and isinstance(box, list):
            box.insert(key, copy.deepcopy(box[key]))
        elif how == 5 and isinstance(box, dict):
            box[rng.choice([*map(str, box), *TEXTS])] = copy.deepcopy(box[key])
    return value


def nested_json(value, rng):
    """Return JSON in which a part stands in many brackets."""
    text = json.dumps(value)
    box = rng.choice(['{"a":%s}', "[%s]"])
    part = rng.choice(["1", '"x"', "null"])
    for _ in range(rng.choice([10, 300, 5000])):
        part = box % part if len(part) < 10_000 else part
    return text[:-1] + f', "more": {part}' + text[-1:]


# --- protobuf --------------------------------------------------------------------


def messages(message):
    """Return a message of protobuf with all that are in it."""
    found = [message]
    for one in found:  # which grows
        for field, value in one.ListFields():
            if field.message_type is not None:
                found += value if field.is_repeated else [value]
    return found


def mutated_proto(data, rng):
    """Return the bytes of an ONNX model of which some fields are changed."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        found = messages(model)
        message = rng.choice(found)
        field = rng.choice(message.DESCRIPTOR.fields)
        like = [one for one in found if one.DESCRIPTOR is message.DESCRIPTOR]
        if field.is_repeated:
            _change_rows(getattr(message, field.name), field, rng)
        elif field.message_type is not None or rng.random() < 0.3:
            message.ClearField(field.name)
        elif rng.random() < 0.5:
            setattr(message, field.name, getattr(rng.choice(like), field.name))
        else:
            _set(message, field, rng)
    return model.SerializeToString()


def _change_rows(rows, field, rng):
    """Remove, double or swap parts of a repeated field, or add one."""
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


def _set(message, field, rng):
    try:
        setattr(message, field.name, _value(field, rng))
    except ValueError:  # not an integer of 32 bits, or no number of the enumeration
        message.ClearField(field.name)


def _value(field, rng):
    """Return a value of the type of a field."""
    if field.type == field.TYPE_STRING:
        return rng.choice([*TEXTS, "Identity", "Loop", "Constant", "Expand", "y"])
    if field.type == field.TYPE_BYTES:
        return rng.choice([b"", b"\xff", b"SAME_UPPER", bytes(64)])
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice([0.0, -1.0, float("inf"), float("nan")])
    if field.type in (field.TYPE_INT32, field.TYPE_ENUM):
        return rng.choice(SIZES[:9])
    return rng.choice([n for n in SIZES if n >= 0 or field.type == field.TYPE_INT64])
