import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from stayput.report.html import write_report
from stayput.report.wording import PublishedComparison

HOSTILE = "<script>alert('&\"')</script>"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags balance, and what the page shows and refers to."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.words, self.ids = [], set(), [], [], []
        self.scripts, self.data = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.in_data = ("type", "application/json") in attrs
        if tag == "script":
            (self.data if self.in_data else self.scripts).append("")
        self._note(attrs)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self._note(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            (self.data if self.in_data else self.scripts)[-1] += data
        elif not {"style", "title"} & set(self.open) and data.strip():
            self.words.append(data.strip())

    def _note(self, attrs):
        self.references += [value for name, value in attrs if name in {"src", "href", "xlink:href"}]
        self.ids += [value for name, value in attrs if name == "id"]

    @property
    def text(self):
        return " | ".join(self.words)


def read(path):
    return Page(path.read_text(encoding="utf-8"))


def tile(page, name):
    """A tile's value and note."""
    at = page.words.index(name)
    return page.words[at + 1], page.words[at + 2]


def test_a_finished_run_is_reported_beside_the_paper(make_run):
    run = make_run()
    path = write_report(run, published=[PublishedComparison(87, 0.97, "table 1")])
    page = read(path)
    assert path == run.path / "report.html"
    assert tile(page, "Rounds to 97% accuracy") == ("2.5", "paper: 87 (table 1)")
    assert tile(page, "Best accuracy") == ("98%", "after round 3")
    assert tile(page, "Time per round") == ("2.00 s", "median; training 6.00 s in all")
    assert "Ended after all of its 3 rounds." in page.words
    assert "f00d" * 16 in page.words
    for name, value in [
        ("algorithm.learning_rate.value", "0.125"),
        ("partition.num_clients", "2"),
        ("target", "0.97"),
        ("threads", "none"),
        ("versions.torch", "9.9"),
        ("machine.cores", "3"),
        ("local steps per second", "5"),
    ]:
        assert page.words[page.words.index(name) + 1] == value


def test_every_setting_of_the_spec_is_in_the_table(make_run):
    run = make_run()
    shown = " ".join(read(write_report(run)).words)
    for name in run.spec.to_json():
        assert name in shown


def test_the_page_fetches_nothing(make_run):
    path = write_report(make_run())
    text, page = path.read_text(encoding="utf-8"), read(path)
    assert all(reference.startswith(("#", "data:image/png;base64,")) for reference in page.references)
    assert page.references  # the check sees some
    written = re.sub(r"<!--.*?-->|<script>.*?</script>|/\*!.*?\*/", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", written)
    assert not {"link", "iframe"} & page.tags
    assert "default-src 'none'" in text
    for script in page.scripts:
        assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|importScripts|import|eval)\(", script)


def test_only_the_bundled_scripts_may_run(make_run):
    path = write_report(make_run())
    text, page = path.read_text(encoding="utf-8"), read(path)
    allowed = re.search(r"script-src ([^;\"]*)\"", text)[1].split()
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in page.scripts]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]
    assert len(page.scripts) == 3
    assert not re.search(r"<[^>]* on[a-z]+=", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))


def test_every_chart_has_its_data(make_run):
    path = write_report(make_run())
    charts = [json.loads(text) for text in read(path).data]
    assert [chart["name"] for chart in charts] == ["metric", "loss", "sizes", "seconds"]
    drawn = re.findall(r'data-chart="chart-([^"]*)"', path.read_text(encoding="utf-8"))
    assert drawn == [chart["name"] for chart in charts]
    evaluations = charts[0]["lines"][0]
    assert (evaluations["label"], evaluations["x"], evaluations["y"]) == (
        "every evaluation",
        [0, 1, 2, 3],
        [0.1, 0.9, 0.96, 0.98],
    )
    assert charts[0]["target"] == 0.97


def test_ids_of_the_figures_do_not_clash(make_run):
    page = read(write_report(make_run()))
    assert page.ids
    assert len(page.ids) == len(set(page.ids))
    for reference in page.references:
        assert not reference.startswith("#") or reference[1:] in page.ids


def test_figures_follow_the_readers_mode(make_run):
    text = write_report(make_run()).read_text(encoding="utf-8")
    drawn = text[text.index("<svg") :]
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", drawn))
    assert {"--ink", "--muted", "--series-0"} <= used
    style = text[: text.index("</style>")]
    dark = style[style.index("prefers-color-scheme: dark") :]
    for variable in used:
        assert style.count(f"{variable}:") == 2
        assert f"{variable}:" in dark
    assert not re.search("#24292f|#656d76|#0072b2", drawn)


def test_names_of_users_are_escaped(make_run):
    run = make_run(name=HOSTILE.replace("/", "-"), task=HOSTILE, metric=HOSTILE, environment={HOSTILE: HOSTILE})
    path = write_report(run)
    page = read(path)
    assert HOSTILE in page.text  # shown as it is
    assert len(page.scripts) == 3
    assert all("alert(" not in script for script in page.scripts)
    assert "<script>alert" not in path.read_text(encoding="utf-8")
    assert "alert(" in "".join(page.data)  # a chart's axis is named after the metric, and stays data
    assert all("<" not in data for data in page.data)


def test_a_run_that_goes_on_is_reported_as_such(make_run):
    page = read(write_report(make_run(rounds=1000, target=0.99, ended=False)))
    assert "Not ended: 3 of 1,000 rounds done." in page.text
    assert tile(page, "Rounds to 99% accuracy") == ("—", "not reached")
    assert "No final model yet: the run has not ended." in page.words


def test_a_run_that_stopped_at_its_target_says_so(make_run):
    assert "Ended at its target after 3 rounds (of at most 50)." in read(write_report(make_run(rounds=50))).words


@pytest.mark.parametrize("accuracies", [(), (None, None)])
def test_a_run_without_evaluations_is_reported(make_run, accuracies):
    page = read(write_report(make_run(accuracies, ended=False)))
    assert tile(page, "Best accuracy") == ("—", "not evaluated yet")
    assert "no evaluations yet" in page.words


def test_a_run_without_a_target_names_none(make_run):
    page = read(write_report(make_run(target=None)))
    assert not [word for word in page.words if word.startswith("Rounds to")]
    assert "best so far" in page.words


def test_the_papers_target_counts_beside_the_runs_own(make_run):
    published = [PublishedComparison(None, 0.95, "table 1")]
    page = read(write_report(make_run(), published=published))
    assert tile(page, "Rounds to 97% accuracy") == ("2.5", "interpolated between evaluations")
    assert tile(page, "Rounds to 95% accuracy") == ("1.8", "paper: — (table 1)")


def test_values_that_are_not_numbers_are_reported(make_run, not_a_number):
    page = read(write_report(make_run((not_a_number, 0.5, not_a_number, 0.4))))
    assert tile(page, "Best accuracy") == ("50%", "after round 1")


def test_missing_label_counts_are_explained(make_run):
    page = read(write_report(make_run(labels=None)))
    assert "No label counts were kept with this run" in page.text
    assert "every client" not in page.text


def test_a_long_run_keeps_the_page_small(make_run):
    path = write_report(make_run([min(0.99, 0.01 * n) for n in range(500)], rounds=499))
    page = read(path)
    assert "200 of 500 evaluations as a table" in page.words
    assert path.stat().st_size < 500_000


def test_the_report_goes_where_it_is_told(make_run, tmp_path):
    assert write_report(make_run(), tmp_path / "new" / "r.html") == tmp_path / "new" / "r.html"
    assert read(tmp_path / "new" / "r.html").tags >= {"svg", "table", "details"}
