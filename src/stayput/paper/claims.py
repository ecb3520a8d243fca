"""What the paper's text claims, looked up in what was measured: holds, does not hold, or not measured.

Each claim is a sentence of the paper and a rule that decides about it, stated beside the verdict, so that a reader can
disagree with the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stayput.core.history import Curve
from stayput.paper import figure1, figure2, figure3, figure5, figure7, figure8, figure9
from stayput.paper.catalogue import TABLES
from stayput.paper.drawing import line_curve
from stayput.paper.exhibits import Figure, Line
from stayput.paper.published import WORD_LSTM_TARGET
from stayput.paper.results import Results, outcome
from stayput.paper.tabulating import Place, places
from stayput.report.wording import percent, rounds_text

HOLDS, FAILS, OPEN = "holds", "does not hold", "not measured"
MODELS = {"table2-cnn": "CNN", "table4": "2NN", "table2-lstm": "LSTM"}


@dataclass(frozen=True)
class Claim:
    """A claim and what came of it."""

    text: str
    rule: str
    verdict: str
    evidence: str


Judged = tuple[bool | None, str]
"""Whether it holds, None where that was not measured; and the numbers."""


def claims(results: Results) -> list[Claim]:
    """Every claim, judged."""
    return [_judged(text, rule, list(judge(results))) for text, rule, judge in _RULES]


def _judged(text: str, rule: str, found: Sequence[Judged]) -> Claim:
    known = [holds for holds, _ in found if holds is not None]
    verdict = OPEN if not known else HOLDS if all(known) else FAILS
    evidence = "; ".join(said for holds, said in found if holds is not None)
    return Claim(text, rule, verdict, evidence)


def _column(table: str, column: str, results: Results, section: int = 0) -> list[Place]:
    title = TABLES[table].sections[section].title
    found = places(TABLES[table], results)
    return [place for place in found if place.column == column and place.section == title]


def _best(found: Sequence[Place]) -> Place | None:
    measured = [place for place in found[1:] if place.speedup is not None]
    return max(measured, key=lambda place: place.speedup or 0.0, default=None)


def _ten_times(results: Results) -> Iterator[Judged]:
    for table, model in MODELS.items():
        best = _best(_column(table, "IID", results))
        if best is not None and best.speedup is not None:
            yield best.speedup >= 10, f"{model}: {best.speedup:.1f}x"


def _smaller_speedups(results: Results) -> Iterator[Judged]:
    for table in ("table2-cnn", "table4"):
        iid, shards = (_best(_column(table, column, results)) for column in ("IID", "Non-IID"))
        if shards is not None and shards.speedup is not None and iid is not None and iid.speedup is not None:
            said = f"{MODELS[table]}: {shards.speedup:.1f}x, IID {iid.speedup:.1f}x"
            yield 1 < shards.speedup < iid.speedup, said


def _order_of_rows(results: Results) -> Iterator[Judged]:
    for table, model in MODELS.items():
        for column in TABLES[table].columns:
            pairs = [
                (float(place.row.labels[3]), place.found.rounds)
                for place in _column(table, column, results)
                if place.found.rounds is not None
            ]
            if len(pairs) >= 4:
                rho = _rank_correlation([u for u, _ in pairs], [rounds for _, rounds in pairs])
                yield rho <= -0.7, f"{model} {column}: {rho:.2f} over {len(pairs)} rows"


def _rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, ties sharing their mean rank."""
    one, other = (np.array(_ranks(values)) for values in (first, second))
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: Sequence[float]) -> list[float]:
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values
    ]


def _parallelism(results: Results, column: str) -> Iterator[tuple[str, float]]:
    for section, model in enumerate(("2NN", "CNN")):
        one, ten, *_ = _column("table1", column, results, section)
        if one.found.rounds is not None and ten.found.rounds is not None:
            yield f"{model} {column}", ten.found.rounds / one.found.rounds


def _little_from_parallelism(results: Results) -> Iterator[Judged]:
    for name, ratio in _parallelism(results, "IID, B=∞"):
        yield ratio >= 0.5, f"{name}: {ratio:.2f} of the rounds"


def _much_from_parallelism(results: Results) -> Iterator[Judged]:
    for column in ("IID, B=10", "Non-IID, B=10"):
        for name, ratio in _parallelism(results, column):
            yield ratio <= 2 / 3, f"{name}: {ratio:.2f} of the rounds"


def _shared_start(results: Results) -> Iterator[Judged]:
    found = figure1.read(results.folder, 0, quick=False)
    if found is None:
        return
    for name, losses, better in (("shared", found.shared, True), ("different", found.different, False)):
        middle, parent = float(np.interp(0.5, found.thetas, losses)), found.best_parent(losses)
        yield (middle < parent) == better, f"{name}: {middle:.3f}, parent {parent:.3f}"


def _roles_are_easier(results: Results) -> Iterator[Judged]:
    iid, roles = (_column("table2-lstm", column, results) for column in ("IID", "Non-IID"))
    for one, other in zip(iid[1:], roles[1:], strict=True):
        if one.found.rounds is not None and other.found.rounds is not None:
            name = f"E={one.row.labels[1]} B={one.row.labels[2]}"
            said = f"{name}: {rounds_text(other.found.rounds)} beside {rounds_text(one.found.rounds)}"
            yield other.found.rounds < one.found.rounds, said


def _ends_higher(results: Results) -> Iterator[Judged]:
    for figure in (figure2.FIGURE, figure7.FIGURE):
        for panel in figure.panels:
            best = {
                line.label: float(curve.best_so_far()[-1])
                for line in panel.lines
                if line.cell.target is None and (curve := _whole(line, results)) is not None
            }
            others = {label: value for label, value in best.items() if label != "FedSGD"}
            if "FedSGD" in best and others:
                label = max(others, key=others.__getitem__)
                said = f"{panel.title}: {label} {percent(others[label])}, FedSGD {percent(best['FedSGD'])}"
                yield others[label] > best["FedSGD"], said


def _whole(line: Line, results: Results) -> Curve | None:
    """A line's curve, if all of its rounds were run at some rate."""
    for seed in results.seeds(line.cell)[:1]:
        curves = results.curves(line.cell, seed)
        long_ones = {k: measured for k, measured in curves.items() if measured.last >= line.cell.rounds}
        best = outcome(line.cell, long_ones).exponent
        if best is not None:
            return long_ones[best].curve
    return None


def _ends(figure: Figure, results: Results) -> Iterator[tuple[str, Mapping[str, float]]]:
    for panel in figure.panels:
        ends = {
            line.label: float(curve.values[-1])
            for line in panel.lines
            if (curve := _whole(line, results)) is not None and np.isfinite(curve.values[-1])
        }
        if len(ends) >= 2 and panel.lines[-1].label in ends:
            yield panel.title, ends


def _plateau_lstm(results: Results) -> Iterator[Judged]:
    for title, ends in _ends(figure3.FIGURE, results):
        largest, best = list(ends)[-1], min(ends, key=ends.__getitem__)
        said = f"{title}: {largest} ends at {ends[largest]:.3f}, {best} at {ends[best]:.3f}"
        yield ends[largest] > ends[best], said


def _no_plateau_cnn(results: Results) -> Iterator[Judged]:
    for title, ends in _ends(figure8.FIGURE, results):
        largest, best = list(ends)[-1], min(ends, key=ends.__getitem__)
        said = f"{title}: {largest} ends at {ends[largest]:.4f}, {best} at {ends[best]:.4f}"
        yield ends[largest] <= 2 * ends[best], said


def _rates_vary_little(results: Results) -> Iterator[Judged]:
    for table, model in MODELS.items():
        for column in TABLES[table].columns:
            rates = [p.found.rate for p in _column(table, column, results) if p.found.rounds and p.found.rate]
            if len(rates) >= 4:
                yield max(rates) <= 10 * min(rates), f"{model} {column}: {min(rates):.3g} to {max(rates):.3g}"


def _cifar_order(results: Results) -> Iterator[Judged]:
    for column in TABLES["table3"].columns:
        sgd, fed_sgd, fed_avg = (place.found.rounds for place in _column("table3", column, results))
        if fed_avg is not None and fed_sgd is not None:
            order = f"FedAvg {rounds_text(fed_avg)}, FedSGD {rounds_text(fed_sgd)}, SGD {rounds_text(sgd)}"
            yield fed_avg < fed_sgd and (sgd is None or fed_sgd < sgd), f"{column}: {order}"


def unrest(curve: Curve) -> float:
    """The mean change between two evaluations, in the second half of a curve."""
    late = curve.values[len(curve.values) // 2 :]
    return float(np.mean(np.abs(np.diff(late))))


def _unrest_of(line: Line, results: Results) -> float | None:
    curve = line_curve(line, results, monotone=False)
    return None if curve is None or len(curve.values) < 8 else unrest(curve)


def _oscillation(results: Results) -> Iterator[Judged]:
    lines = {line.label: line for line in figure9.FIGURE.panels[0].lines}
    smooth = _unrest_of(lines["FedAvg, C=0.1 E=1"], results)
    for label in ("SGD", "FedAvg, C=0 E=1"):
        rough = _unrest_of(lines[label], results)
        if rough is not None and smooth is not None:
            yield rough > smooth, f"{label} {percent(rough)}, FedAvg C=0.1 {percent(smooth)}"


def _word_rounds(results: Results) -> Iterator[Judged]:
    found = []
    for line in (figure5.FED_AVG, figure5.FED_SGD):
        curve = line_curve(line, results, monotone=True)
        found.append(None if curve is None else curve.rounds_to(WORD_LSTM_TARGET))
    if found[0] is not None and found[1] is not None:
        said = f"{rounds_text(found[0])} beside {rounds_text(found[1])}"
        yield found[0] * 2 <= found[1], said


def _word_variance(results: Results) -> Iterator[Judged]:
    fed_avg, fed_sgd = (_unrest_of(line, results) for line in (figure5.FED_AVG, figure5.FED_SGD))
    if fed_avg is not None and fed_sgd is not None:
        yield fed_avg < fed_sgd, f"FedAvg {percent(fed_avg)}, FedSGD {percent(fed_sgd)}"


def _word_epochs(results: Results) -> Iterator[Judged]:
    one, five = (line_curve(line, results, monotone=True) for line in (figure5.FED_AVG, figure5.FED_AVG_5))
    if one is not None and five is not None:
        shared = min(len(one.values), len(five.values))
        ends = [float(curve.values[shared - 1]) for curve in (one, five)]
        yield ends[0] > ends[1], f"after the same rounds {percent(ends[0])}, E=5 {percent(ends[1])}"


_RULES: Sequence[tuple[str, str, Callable[[Results], Iterator[Judged]]]] = (
    ("Adding local computation reduces the rounds by 10x to 100x, for IID data.",
     "the best FedAvg row of an IID column needs at most a tenth of FedSGD's rounds", _ten_times),
    ("For pathological non-IID data the speedups are smaller, but still substantial (2.8 to 3.7x).",
     "the best FedAvg row is faster than FedSGD, by less than on IID data", _smaller_speedups),
    ("Increasing u, by E and by B, is effective: rows in the order of u need fewer and fewer rounds.",
     "the rank correlation of u and rounds is -0.7 or lower, over at least four rows", _order_of_rows),
    ("With B=∞ there is only a small advantage in a larger client fraction.",
     "IID, B=∞: C=0.1 needs at least half of the rounds of C=0", _little_from_parallelism),
    ("With B=10, C of 0.1 or more is significantly better than one client, above all on non-IID data.",
     "B=10: C=0.1 needs at most two thirds of the rounds of C=0", _much_from_parallelism),
    ("With a shared initialisation the average of two models is better than either; with different ones it is bad.",
     "figure 1: the loss at θ=0.5 beside the better parent's", _shared_start),
    ("The LSTM learns much faster on the natural, non-IID and unbalanced roles than on balanced IID data.",
     "FedAvg rows of table 2: fewer rounds by role", _roles_are_easier),
    ("FedAvg ends at a higher accuracy than FedSGD.",
     "figures 2 and 7: the best values of rows trained beyond the target", _ends_higher),
    ("For very many local epochs, FedAvg can plateau or diverge (LSTM).",
     "figure 3: the largest E ends with a higher training loss than the best one", _plateau_lstm),
    ("The CNN shows no significant degradation for large E.",
     "figure 8: the largest E ends within a factor of two of the best training loss", _no_plateau_cnn),
    ("The optimal learning rates do not vary too much with the other parameters.",
     "the best rates of a column with C=0.1 lie within a factor of ten", _rates_vary_little),
    ("On CIFAR-10 FedAvg needs far fewer rounds than FedSGD, and FedSGD fewer than SGD.",
     "table 3, each target", _cifar_order),
    ("SGD, and FedAvg with one client a round, oscillate; averaging over more clients smooths that out.",
     "figure 9: the mean change between evaluations, in the second half", _oscillation),
    ("The word LSTM reaches 10.5% with FedAvg in far fewer rounds than with FedSGD (35 beside 820).",
     "figure 5: at most half of the rounds, at the best rates", _word_rounds),
    ("FedAvg's accuracy varies less from evaluation to evaluation than FedSGD's (word LSTM).",
     "figure 10: the mean change between evaluations, in the second half", _word_variance),
    ("For the word LSTM, E=1 is slightly better than E=5.",
     "figure 10: the best values after the same rounds", _word_epochs),
)  # fmt: skip
