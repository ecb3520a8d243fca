"""`stayput report` on a folder of measured cells: the paper's tables beside ours."""

from stayput.cli.beside_paper import measured_tables
from stayput.paper.catalogue import TABLES
from stayput.paper.results import Results
from stayput.report.number_tables import write_tables


def test_measured_rounds_stand_beside_the_papers(tmp_path, keep, crossing):
    table = TABLES["table1"]
    entry = table.sections[0].rows[0].entries[0]
    cell = entry.cells[0]
    every = cell.identity["evaluate_every"]
    keep(Results(tmp_path), cell, {0: crossing([entry.target], [every * 5.0], every, cell.rounds)})
    sections = dict(measured_tables(tmp_path))
    assert list(sections) == [table.title for table in TABLES.values()]
    first = sections[table.title][0]
    assert {"the paper", "ours", "ratio"} <= set(first.header)
    assert all(len(row) == len(first.header) for row in first.rows)
    row = dict(zip(first.header, first.rows[0], strict=True))
    assert float(row["the paper"].replace(",", "")) == entry.printed
    assert float(row["ours"].replace(",", "")) == every * 5.0 * entry.paper_rounds_a_round
    path = write_tables("The paper, measured", "", list(sections.items()), tmp_path / "r.html")
    text = path.read_text(encoding="utf-8")
    assert f">{row['ours']}<" in text
    assert text.count("<table") == sum(len(tables) for tables in sections.values())


def test_other_folders_hold_no_measured_cells(tmp_path):
    assert measured_tables(tmp_path / "nothing") == []
    assert measured_tables(tmp_path) == []
    (tmp_path / "other.json").write_text("{}")
    assert measured_tables(tmp_path) == []
