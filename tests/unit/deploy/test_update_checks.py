from __future__ import annotations

import dataclasses
import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stayput.deploy.chunks import Manifest
from stayput.deploy.claims import Claim, sign_claim
from stayput.deploy.identity import SigningKey
from stayput.deploy.messages import OfferUpdate
from stayput.deploy.schemas import decode, encode
from stayput.deploy.tensor_files import TensorSpec, as_float64, encode_tensors
from stayput.deploy.update_checks import OwnedTask, RefusalReason, UpdateRules, UpdateSchema, check_claim, check_update
from stayput.errors import InvalidSetting, UpdateRefused

KEY, OTHER = SigningKey.generate(), SigningKey.generate()
SPECS = (TensorSpec("weights/fc.weight", "F32", (3, 5)), TensorSpec("weights/fc.bias", "F32", (3,)))
SCHEMA = UpdateSchema.of(SPECS)
RULES = UpdateRules()
TASK = OwnedTask("r3-7", KEY.key_id, open=True)


def tensors(**changes):
    """A good update's tensors, some of them replaced (or left out: None)."""
    good = {
        "weights/fc.weight": np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5),
        "weights/fc.bias": np.array([3, 0, 4], np.float32),
    }
    found = {
        **good,
        **{name.replace("__", "/").replace("_w", ".w").replace("_b", ".b"): v for name, v in changes.items()},
    }
    return {name: array for name, array in found.items() if array is not None}


DTYPE_NAMES = {"float32": "F32", "float64": "F64", "int32": "I32", "float16": "F16"}


def content_of(found, metadata=None):
    named = {name: (TensorSpec(name, DTYPE_NAMES[a.dtype.name], a.shape), a) for name, a in found.items()}
    return encode_tensors(named, metadata)


def claim_of(content, key=KEY, **changes):
    fields = {
        "task_id": TASK.task_id,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "num_examples": 600,
        "num_steps": 300,
        "train_loss": 0.25,
    }
    return sign_claim(key, **{**fields, **changes})


def refused(content, *, claim=None, sender=KEY, task=TASK, rules=RULES, schema=SCHEMA):
    with pytest.raises(UpdateRefused) as refusal:
        check_update(claim or claim_of(content), sender.public_bytes, task, schema, rules, content)
    return refusal.value.reason


GOOD = content_of(tensors())


def test_a_good_update_counts_as_it_is():
    accepted = check_update(claim_of(GOOD), KEY.public_bytes, TASK, SCHEMA, RULES, GOOD)
    assert accepted.num_examples == 600
    assert accepted.scale == 1.0
    for name, array in tensors().items():
        assert np.array_equal(accepted.tensors.view(name), array)
    squares = sum(float(x) ** 2 for array in tensors().values() for x in array.reshape(-1))
    assert accepted.norm == pytest.approx(math.sqrt(squares), rel=1e-14)


WEIGHT = "weights__fc_weight"
BIAS = "weights__fc_bias"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({BIAS: np.array([1, np.nan, 2], np.float32)}, RefusalReason.NOT_FINITE),
        ({BIAS: np.array([1, np.inf, 2], np.float32)}, RefusalReason.NOT_FINITE),
        ({BIAS: np.array([1, -np.inf, 2], np.float32)}, RefusalReason.NOT_FINITE),
        ({BIAS: np.zeros((1,), np.float32)}, RefusalReason.SHAPE),
        ({BIAS: np.zeros((), np.float32)}, RefusalReason.SHAPE),
        ({BIAS: np.zeros((3, 1), np.float32)}, RefusalReason.SHAPE),
        ({BIAS: np.zeros((1, 3), np.float32)}, RefusalReason.SHAPE),
        ({WEIGHT: np.zeros((5, 3), np.float32)}, RefusalReason.SHAPE),
        ({WEIGHT: np.zeros((15,), np.float32)}, RefusalReason.SHAPE),
        ({WEIGHT: np.zeros((16,), np.float32)}, RefusalReason.SHAPE),
        ({BIAS: np.zeros((3,), np.int32)}, RefusalReason.DTYPE),
        ({BIAS: np.zeros((3,), np.float64)}, RefusalReason.DTYPE),
        ({BIAS: np.zeros((6,), np.float16)}, RefusalReason.DTYPE),
        ({BIAS: None}, RefusalReason.NAMES),
        ({BIAS: None, "weights__fc_bia": np.zeros((3,), np.float32)}, RefusalReason.NAMES),
        ({"weights__fc_bias2": np.zeros((3,), np.float32)}, RefusalReason.NAMES),
        ({"memory__fc_bias": np.zeros((0,), np.float32)}, RefusalReason.NAMES),
    ],
)
def test_tensors_that_are_not_the_models_are_refused(changes, reason):
    assert refused(content_of(tensors(**changes))) == reason


def test_tensors_that_are_too_few_bytes_are_refused_before_they_are_sent():
    large = UpdateSchema.of((TensorSpec("weights/w", "F32", (5_000,)),))
    assert refused(GOOD, schema=large) == RefusalReason.SIZE


def test_metadata_and_bytes_behind_are_refused():
    assert refused(content_of(tensors(), {"format": "pt"})) == RefusalReason.MALFORMED
    assert refused(GOOD + b"\0") == RefusalReason.MALFORMED
    assert refused(b"\0" * len(GOOD)) == RefusalReason.MALFORMED


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("num_examples", 0, RefusalReason.EXAMPLES),
        ("num_examples", -600, RefusalReason.EXAMPLES),
        ("num_examples", 10_000_001, RefusalReason.EXAMPLES),
        ("num_examples", 2**53 - 1, RefusalReason.EXAMPLES),
        ("num_steps", -1, RefusalReason.EXAMPLES),
        ("num_steps", 2**53 - 1, RefusalReason.EXAMPLES),
        ("train_loss", math.nan, RefusalReason.NOT_FINITE),
        ("train_loss", math.inf, RefusalReason.NOT_FINITE),
        ("size", 0, RefusalReason.SIZE),
        ("size", SCHEMA.max_bytes + 1, RefusalReason.SIZE),
        ("size", SCHEMA.min_bytes - 1, RefusalReason.SIZE),
        ("size", len(GOOD) + 1, RefusalReason.SIZE),
        ("task_id", "r3-8", RefusalReason.OWNERSHIP),
    ],
)
def test_claims_out_of_bounds_are_refused(field, value, reason):
    assert refused(GOOD, claim=claim_of(GOOD, **{field: value})) == reason


@pytest.mark.parametrize("field", ["task_id", "sha256", "size", "num_examples", "num_steps", "train_loss", "signature"])
def test_a_claim_that_was_altered_is_not_the_clients(field):
    altered = {
        "task_id": "r3-8", "sha256": "0" * 64, "size": len(GOOD) + 1, "num_examples": 601, "num_steps": 301,
        "train_loss": math.nextafter(0.25, 1), "signature": bytes(64),
    }  # fmt: skip
    claim = dataclasses.replace(claim_of(GOOD), **{field: altered[field]})
    with pytest.raises(UpdateRefused) as refusal:
        check_claim(claim, KEY.public_bytes, TASK, SCHEMA, UpdateRules())
    assert refusal.value.reason == RefusalReason.SIGNATURE


def test_anothers_task_is_refused_whoever_signed():
    assert refused(GOOD, sender=OTHER) == RefusalReason.SIGNATURE
    assert refused(GOOD, claim=claim_of(GOOD, OTHER)) == RefusalReason.SIGNATURE
    assert refused(GOOD, claim=claim_of(GOOD, OTHER), sender=OTHER) == RefusalReason.OWNERSHIP
    assert refused(GOOD, task=None) == RefusalReason.OWNERSHIP


def test_a_round_that_is_over_takes_no_updates():
    assert refused(GOOD, task=dataclasses.replace(TASK, open=False)) == RefusalReason.STALE


def test_questions_are_asked_from_the_cheapest_to_the_dearest():
    """An update that is wrong in every way is refused for the first reason; mended, for the next."""
    nan = np.array([np.nan, 1e30, 1], np.float32)
    rules = UpdateRules(max_norm=0.5)
    stale = dataclasses.replace(TASK, open=False)
    everything = content_of({"weights/fc.weigh": np.zeros((3, 5), np.float32), "weights/fc.bias": nan})
    shapes = content_of(tensors(weights__fc_weight=np.zeros((5, 3), np.float32), weights__fc_bias=nan))
    infinite = content_of(tensors(weights__fc_bias=nan))
    bad = {"num_examples": 0}
    assert refused(everything, claim=claim_of(everything, OTHER, size=1, **bad), task=stale, rules=rules) == "size"
    assert refused(everything, claim=claim_of(everything, OTHER, **bad), task=stale, rules=rules) == "signature"
    theirs = dataclasses.replace(stale, key_id=OTHER.key_id)
    assert refused(everything, claim=claim_of(everything, **bad), task=theirs, rules=rules) == "ownership"
    assert refused(everything, claim=claim_of(everything, **bad), task=stale, rules=rules) == "stale"
    assert refused(everything, rules=rules) == "names"
    assert refused(shapes, rules=rules) == "shape"
    assert refused(infinite, rules=rules) == "not finite"
    assert refused(GOOD, rules=rules) == "norm"


@given(st.floats(0.1, 100), st.sampled_from(["clip", "reject"]))
@settings(max_examples=50)
def test_a_norm_over_the_bound_is_clipped_to_it_or_refused(bound, on_norm):
    norm = math.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in tensors().values()))
    rules = UpdateRules(max_norm=bound, on_norm=on_norm)
    if norm > bound and on_norm == "reject":
        assert refused(GOOD, rules=rules) == RefusalReason.NORM
        return
    accepted = check_update(claim_of(GOOD), KEY.public_bytes, TASK, SCHEMA, rules, GOOD)
    clipped = [as_float64(accepted.tensors.view(n), "F32") * accepted.scale for n in accepted.tensors.specs]
    assert math.sqrt(sum(float((a**2).sum()) for a in clipped)) == pytest.approx(min(norm, bound), rel=1e-12)
    assert accepted.scale <= 1


def test_a_norm_beyond_float64_cannot_be_clipped():
    spec = (TensorSpec("w", "F64", (2,)),)
    content = content_of({"w": np.array([1e300, 1e300])})
    rules = UpdateRules(max_norm=1.0, on_norm="clip")
    assert refused(content, schema=UpdateSchema.of(spec), rules=rules) == RefusalReason.NORM


def test_buffers_that_count_are_no_part_of_the_norm():
    specs = (TensorSpec("buffers/n", "I32", (1,)), TensorSpec("weights/w", "F32", (2,)))
    content = content_of({"weights/w": np.array([3, 4], np.float32), "buffers/n": np.array([1000], np.int32)})
    accepted = check_update(claim_of(content), KEY.public_bytes, TASK, UpdateSchema.of(specs), UpdateRules(), content)
    assert accepted.norm == 5.0


@given(st.data())
@settings(max_examples=150)
def test_any_change_of_a_good_update_is_refused_or_leaves_only_good_numbers(data):
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(content)
    try:
        accepted = check_update(claim_of(content), KEY.public_bytes, TASK, SCHEMA, UpdateRules(), content)
    except UpdateRefused:
        return
    assert {name: spec.shape for name, spec in accepted.tensors.specs.items()} == {s.name: s.shape for s in SPECS}
    assert all(np.isfinite(accepted.tensors.view(name)).all() for name in accepted.tensors.specs)


def test_a_claim_survives_the_wire_with_its_signature():
    claim = claim_of(GOOD)
    message = OfferUpdate(
        claim.task_id, Manifest.of(GOOD), claim.num_examples, claim.num_steps, claim.train_loss, claim.signature.hex()
    )
    received = Claim.in_message(decode(OfferUpdate, encode(message)))
    assert received == claim
    assert received.signed_by(KEY.public_bytes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_examples": 0},
        {"max_examples": 0},
        {"max_steps": 0},
        {"max_norm": 0.0},
        {"max_norm": math.nan},
        {"on_norm": "x"},
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidSetting):
        UpdateRules(**wrong)
