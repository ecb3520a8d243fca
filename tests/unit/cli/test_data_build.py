"""`stayput data build`, and runs on what it built: inside this process, with tables of a few hundred rows."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stayput.cli.data_build import StepLines
from stayput.runs.run_folder import RunFolder


@pytest.fixture
def tables(tmp_path):
    draw = np.random.default_rng(0)
    for name, rows in (("visits", 300), ("visits-test", 50)):
        pixels = draw.integers(256, size=(rows, 784), dtype=np.uint8)
        flat = pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), 784)
        users = [f"user {number % 40:02d}" for number in range(rows)]
        digits = pa.array(draw.integers(10, size=rows), pa.int8())
        pq.write_table(pa.table({"user": users, "pixels": flat, "digit": digits}), tmp_path / f"{name}.parquet")


BUILD = ["data", "build", "visits.parquet", "clients", "--client", "user", "--inputs", "pixels", "--targets", "digit"]
RUN = ["run", "mnist-2nn", "--population", "clients", "--rounds", "2", "--no-report", "--json", "--quiet"]


def test_a_table_becomes_clients_that_a_run_trains_on_and_resumes(command, tables, tmp_path):
    ended = command(*BUILD, "--test", "visits-test.parquet")
    assert ended.out == "40 clients with 300 examples, 50 examples to test on in clients\n"
    assert "data: counting clients, 0 MB of" in ended.err
    trained = command(*RUN, "--folder", "first")
    assert trained.code == 0, trained.err
    told = json.loads(trained.out)
    assert told["partition"] == {"name": "population", "folder": str(tmp_path / "clients")}
    assert 0 <= told["best"] <= 1
    assert RunFolder("first").history().reports[1].num_examples == 30  # 4 of 40 clients with 7 or 8 examples each
    assert command("resume", "first", "--rounds", "3", "--no-report", "--quiet").code == 0
    assert RunFolder("first").history().last_round == 3
    assert command("report", "first").code == 0


def test_a_run_under_a_virtual_clock_says_how_long_it_took_and_resumes(command, tables):
    command(*BUILD, "--quiet")
    ended = command(*RUN, "--folder", "clocked", "--availability", "diurnal", "--dropout", "0.1")
    assert ended.code == 0, ended.err
    seen = json.loads(ended.out)["simulated"]
    assert seen["seconds"] > 0
    assert seen["bytes_up"] > 4 * 199_210
    lines = command("resume", "clocked", "--rounds", "3", "--no-report", "--quiet").out
    assert "hours," in lines
    assert "tasks came to nothing" in lines
    refused = command(*RUN, "--folder", "other", "--over-selection", "0.5")
    assert (refused.code, "over_selection=0.5: must be at least 1" in refused.err) == (2, True)


@pytest.mark.parametrize("memory", ["nan", "inf", "1e300", "-1", "0"])
def test_memory_is_a_number_of_gigabytes(command, tables, memory):
    refused = command(*BUILD, "--memory", memory)
    assert (refused.code, "memory=" in refused.err) == (2, True)


def test_a_run_without_examples_to_test_on_has_losses_of_training(command, tables):
    assert command(*BUILD, "--quiet").err == ""
    trained = command(*RUN, "--folder", "untested")
    assert trained.code == 0, trained.err
    assert json.loads(trained.out)["best"] is None
    refused = command(*RUN, "--folder", "other", "--target", "0.9")
    assert (refused.code, "target=0.9: needs test examples to be measured on" in refused.err) == (2, True)


def test_populations_are_verified(command, tables, tmp_path):
    command(*BUILD, "--quiet")
    assert command("data", "verify", "clients").out == "clients: 40 clients, 0.2 MB, as built\n"
    with (tmp_path / "clients" / "inputs.npy").open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    damaged = command("data", "verify", "clients")
    assert damaged.code == 3
    assert "inputs.npy: has sha256" in damaged.err


def test_what_a_population_does_not_go_with_is_refused(command, tables):
    command(*BUILD, "--quiet")
    assert "folder='clients': is there already (choose another, or remove it)" in command(*BUILD, "--quiet").err
    refused = command(*RUN, "--num-clients", "10")
    assert refused.code == 2
    assert "num_clients=10: the clients of a population hold what they hold" in refused.err
    absent = command("run", "mnist-2nn", "--population", "nowhere")
    assert absent.code == 3
    assert "nowhere: nothing is stored there" in absent.err
    misfit = command("run", "cifar10-cnn", "--population", "clients", "--rounds", "1")
    assert misfit.code == 4


def test_steps_are_said_when_they_begin_and_every_ten_seconds(capsys):
    now = [0.0]
    lines = StepLines(clock=lambda: now[0])
    for seconds, step, done in ((0, "counting", 1), (9, "counting", 2), (10, "counting", 3e6), (11, "writing", 5e6)):
        now[0] = seconds
        lines(step, int(done), None if step == "writing" else 8_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "data: counting, 0 MB of 8 MB",
        "data: counting, 3 MB of 8 MB",
        "data: writing, 5 MB",
    ]


def test_a_sweep_has_no_virtual_clock(command, tables, tmp_path):
    (tmp_path / "clocked.toml").write_text('task = "mnist-2nn"\navailability = "diurnal"\n')
    refused = command("sweep", "clocked.toml", "--seed", "0,1")
    assert refused.code == 2
    assert "availability='diurnal': the members of a sweep share no clock" in refused.err
