"""``benchmarks/records.py``: what a record is, and how a script writes one."""

import argparse
import doctest
import json
from decimal import Decimal

import pytest

from benchmarks import records

VALID = {
    "question": "How long does it take?",
    "machine": "a machine",
    "date": "2026-11-23",
    "command": "python benchmarks/workloads.py",
    "columns": ["workload", "cpu", "torch"],
    "unit": "us",
    "rows": [["add_8", 0.46, 0.88], ["exp_1m", 2.1, None]],
}
FAULTS = {  # how a valid record is changed: the error message
    "rows=[]": "rows: there are none",
    'rows=[["add_8", 0.46]]': r"row 1 has 2 cells for 3 columns: \['add_8', ",
    'rows=[["a", 1, 2], ["b", 1, 2, 3]]': "row 2 has 4 cells for 3 columns",
    'rows=[["add_8", "0.46", 1]]': "row 1, cpu: '0.46' is not a number of at least 0",
    'rows=[["add_8", true, 1]]': "row 1, cpu: True is not a number",
    'rows=[["add_8", -1, 1]]': "row 1, cpu: -1 is not a number of at least 0, or null",
    'rows=[["add_8", NaN, 1]]': "row 1, cpu: nan is not a number",
    'rows=[["add_8", Infinity, 1]]': "row 1, cpu: inf is not a number",
    "rows=[[0.5, 1, 1]]": r"row 1, workload: .* is not a name",
    'rows=[["", 1, 1]]': "row 1, workload: '' is not a name",
    'rows=[["a", 1, 1], ["a", 1, 1]]': "rows: a occurs twice",
    'rows={"add_8": 1}': "rows: .* does not fit",
    'columns=["workload", "cpu", "cpu"]': "contain a name twice",
    'columns=["workload", 1, "cpu"]': "are not all names",
    'date="23 November"': "'23 November' is not a date such as 2026-11-23",
    'commit="main"': "'main' is not a commit hash",
    'machine=""': "machine: '' does not fit",
    "labels=3": "labels: 3 of 3 columns",
    'unit={"torch": "us", "cpu": "us"}': r"unit: has \['torch', 'cpu'\], the columns",
    'column="a"': "column: unknown; see benchmarks/records.py",
    "unit=null": "unit: None does not fit",
}


def test_examples_run():
    failed, tried = doctest.testmod(records)
    assert tried
    assert not failed


def test_all_records_are_read():
    found = records.read_all()
    assert {"workloads-xeon-1", "gpu-workloads-h100"} <= {*found}
    for name, record in found.items():
        text = (records.FOLDER / f"{name}.json").read_text()
        assert records.dumps(json.loads(text, parse_float=Decimal)) == text, name
        assert record.question.endswith("?")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_file(fault, tmp_path):
    key, _, value = fault.partition("=")
    path = tmp_path / "some.json"
    path.write_text(json.dumps(VALID | {key: json.loads(value)}))
    with pytest.raises(records.RecordError, match=FAULTS[fault]) as caught:
        records.read(path)
    assert str(caught.value).startswith("some.json: ")


@pytest.mark.parametrize("key", records.REQUIRED)
def test_a_missing_key_is_named(key, tmp_path):
    path = tmp_path / "some.json"
    path.write_text(json.dumps({k: v for k, v in VALID.items() if k != key}))
    with pytest.raises(records.RecordError, match=f"^some.json: {key}: missing$"):
        records.read(path)


def test_a_file_without_an_object_is_refused(tmp_path):
    path = tmp_path / "some.json"
    for text, message in (("[]", "contains no object"), ("{", r"some\.json: .*line 1")):
        path.write_text(text)
        with pytest.raises(records.RecordError, match=message):
            records.read(path)


def test_digits_are_kept_and_nulls_left_out(tmp_path):
    path = tmp_path / "some.json"
    path.write_text(json.dumps(VALID).replace("2.1", "2.10"))
    record = records.read(path)
    assert str(record.rows[1][1]) == "2.10"
    assert record.column("torch") == {"add_8": 0.88}
    assert record.cells("torch") == {"add_8": Decimal("0.88"), "exp_1m": None}
    assert record.place_and_time() == "a machine, 23 November 2026"
    with pytest.raises(records.RecordError, match="some: no column 'jax'; choose from"):
        record.column("jax")


def test_a_script_writes_a_record_of_today(tmp_path, monkeypatch):
    path, folder = tmp_path / "new.json", tmp_path / "python"
    command = ["benchmarks/workloads.py", "--python", str(folder), "--peers", "torch"]
    monkeypatch.setattr("sys.argv", [*command, f"--record={path}"])
    parser = argparse.ArgumentParser()
    records.add_option(parser)
    options = parser.parse_args(["--record", str(path)])
    rows = [["add_8", 0.456789, None], ["exp_1m", 12058.4, 3]]
    records.write(
        options.record,
        question="How long?",
        columns=("workload", "cpu", "torch"),
        unit="us",
        rows=rows,
    )
    record = records.read(path)
    assert record.command == "python benchmarks/workloads.py --peers torch"
    assert [[str(x) for x in row[1:]] for row in record.rows] == [
        ["0.4568", "None"],
        ["12058", "3"],
    ]
    assert record.machine
    assert str(tmp_path) not in path.read_text()


def test_an_invalid_record_is_not_written(tmp_path):
    path = tmp_path / "new.json"
    with pytest.raises(records.RecordError, match="row 1 has 1 cells for 2 columns"):
        records.write(path, question="a", columns=["a", "b"], unit="us", rows=[["a"]])
    assert not path.exists()
