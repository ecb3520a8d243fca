"""Reports in a browser without a network: charts that answer, paper, phones, readers of screens."""

import re

import pytest
from playwright.sync_api import expect

from stayput.report.html import write_report, write_report_on
from stayput.report.wording import PublishedComparison
from stayput.runs.run_folder import RunFolder, runs_in

pytestmark = pytest.mark.slow

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def single(folder, tmp_path):
    published = [PublishedComparison(87, 0.9, "table 1")]
    return write_report(RunFolder(folder / "shards-1"), tmp_path / "report.html", published=published).as_uri()


@pytest.fixture
def several(folder, tmp_path):
    return write_report_on(list(runs_in(folder / "sweep")), tmp_path / "sweep.html", title="sweep").path.as_uri()


@pytest.fixture
def mixed(folder, tmp_path):
    return write_report_on(list(runs_in(folder)), tmp_path / "mixed.html", title="all of it").path.as_uri()


def test_charts_answer_without_a_network(single, open_page, keep):
    page = open_page(single, offline=True)
    expect(page.locator(".live:visible canvas")).to_have_count(3)
    assert page.locator(".still:visible").count() == 1  # how labels are spread is a picture
    over = page.locator("figure[data-chart=chart-metric] .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = page.locator(".tip:not([hidden])")
    expect(tip).to_contain_text(re.compile(r"round 4\d"))
    expect(tip).to_contain_text("best so far")
    keep(page, "report-hover")
    legend = page.get_by_role("button", name="every evaluation")
    legend.click()
    expect(legend).to_have_attribute("aria-pressed", "false")
    chart = page.locator("figure[data-chart=chart-seconds] .plot")
    chart.focus()
    page.keyboard.press("End")
    expect(page.locator("figure[data-chart=chart-seconds] .tip")).to_contain_text("0.4 s")


def test_paper_and_readers_without_scripts_get_the_same_figures(single, open_page, keep, chromium, tmp_path):
    page = open_page(single)
    expect(page.locator(".live:visible canvas")).to_have_count(3)
    page.emulate_media(media="print")
    assert page.locator("canvas:visible").count() == 0
    assert page.locator(".still svg:visible").count() >= 4
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(36, 41, 47)"
    keep(page, "report-print")
    pdf = page.pdf(path=tmp_path / "report.pdf")
    assert pdf.startswith(b"%PDF")
    context = chromium.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(single)
    assert plain.locator(".still svg:visible").count() >= 4
    context.close()


@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", PHONE)], ids=["light-desk", "dark-phone"])
@pytest.mark.parametrize("which", ["single", "mixed"])
def test_nothing_keeps_anybody_from_reading_it(request, open_page, keep, serious_faults, which, scheme, size):
    page = open_page(request.getfixturevalue(which), scheme=scheme, size=size)
    page.locator(".live canvas").first.wait_for()
    assert serious_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    keep(page, f"report-{which}-{scheme}-{size['width']}")


def test_a_sweeps_response_answers_too(several, open_page, keep, serious_faults):
    page = open_page(several, scheme="dark")
    chart = page.locator("figure[data-chart=chart-response-rounds] .plot")
    chart.focus()
    page.keyboard.press("End")
    expect(page.locator("figure[data-chart=chart-response-rounds] .tip")).to_contain_text("learning rate 0.4")
    assert serious_faults(page) == []
    keep(page, "report-sweep")


def test_what_cannot_be_shown_is_said(mixed, open_page):
    page = open_page(mixed)
    warning = page.locator("section.warning")
    expect(warning).to_contain_text("unreadable")
    expect(warning).to_contain_text("newer")
    expect(page.get_by_text("training diverged")).to_have_count(0)  # of the best run alone there are details
    expect(page.get_by_role("cell", name="diverged", exact=True)).to_have_count(2)
