"""What is fuzzed: every parser of the deployment, as a function of bytes that may only return or refuse."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct

from stayput.deploy.claims import sign_claim
from stayput.deploy.identity import SigningKey, parse_token
from stayput.deploy.messages import MESSAGES, Enrol, Heartbeat, Poll, Wait
from stayput.deploy.partial_blobs import Manifest
from stayput.deploy.schemas import decode, encode
from stayput.deploy.signed_requests import read_headers, sign_request
from stayput.deploy.strict_json import parse_object
from stayput.deploy.tensor_files import TensorFile, TensorSpec, encode_tensors
from stayput.deploy.update_checks import OwnedTask, UpdateRules, UpdateSchema, check_update
from stayput.errors import StayputError

KEY = SigningKey.generate()
SPECS = (TensorSpec("weights/w", "F32", (2, 2)), TensorSpec("weights/b", "BF16", (2,)))
SCHEMA = UpdateSchema.of(SPECS)
TASK = OwnedTask("task", KEY.key_id, open=True)
RULES = UpdateRules(max_norm=10.0, on_norm="clip")


def message(data: bytes) -> None:
    """A control message of any kind; what is read must survive being written again."""
    with contextlib.suppress(StayputError):
        found = decode(MESSAGES, data)
        assert decode(type(found), encode(found)) == found


def json_object(data: bytes) -> None:
    """JSON by itself."""
    with contextlib.suppress(StayputError):
        json.dumps(parse_object(data, what="json"), allow_nan=False)


def tensor_file(data: bytes) -> None:
    """A safetensors file; what is read must be inside the file."""
    with contextlib.suppress(StayputError):
        file = TensorFile(data)
        assert sum(spec.num_bytes for spec in file.specs.values()) <= len(data)
        for name in file.specs:
            file.is_finite(name)
            file.square_sum(name)


def tensor_header(data: bytes) -> None:
    """The same with a right length in front, so that the fuzzer gets to the header."""
    header, _, content = data.partition(b"\0")
    tensor_file(struct.pack("<Q", len(header)) + header + content)


def update(data: bytes) -> None:
    """The bytes of an update, under a true claim."""
    claim = sign_claim(
        KEY,
        task_id="task",
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        num_examples=1,
        num_steps=1,
        train_loss=0.0,
    )
    with contextlib.suppress(StayputError):
        accepted = check_update(claim, KEY.public_bytes, TASK, SCHEMA, RULES, data)
        assert {spec.name: spec for spec in SPECS} == dict(accepted.tensors.specs)
        assert 0 < accepted.scale <= 1


def manifest(data: bytes) -> None:
    """A manifest within a message, and whether it adds up."""
    with contextlib.suppress(StayputError):
        found = decode(tuple(each for each in MESSAGES if each.kind in {"update", "task"}), data)
        held: Manifest = getattr(found, "manifest", None) or found.model
        held.check(max_size=1 << 30)
        assert sum(held.length_of(index) for index in range(len(held.chunks))) == held.size


def headers(data: bytes) -> None:
    """The headers of a signed request, a line each."""
    lines = (line.partition(":") for line in data.decode("latin-1").split("\n"))
    with contextlib.suppress(StayputError):
        read_headers({name.strip().lower(): value.strip() for name, _, value in lines})


def token(data: bytes) -> None:
    """The text of an enrolment token."""
    with contextlib.suppress(StayputError):
        parse_token(data.decode("utf-8", "replace"))


TARGETS = {
    each.__name__: each for each in (message, json_object, tensor_file, tensor_header, update, manifest, headers, token)
}


def everything(data: bytes) -> None:
    """All of them, one after another."""
    for target in TARGETS.values():
        target(data)


def planted(data: bytes) -> None:
    """A fault, to see that one is found."""
    assert not data.startswith(b'{"protocol":1,"kind":"wait"')


def examples() -> list[bytes]:
    """Good inputs to begin with: one of each form."""
    import numpy as np

    tensors = {spec.name: (spec, np.zeros(spec.shape, "<f4" if spec.dtype == "F32" else "<u2")) for spec in SPECS}
    file = encode_tensors(tensors, {"format": "pt"})
    signed = sign_request(KEY, "POST", "/v1/poll", "0" * 64, boot="0" * 32, now=1.0)
    blob = Manifest.of(b"blob")
    offer = {
        "protocol": 1, "kind": "update", "task_id": "task", "num_examples": 1, "num_steps": 1, "train_loss": 0.5,
        "signature": "0" * 128, "requires": [],
        "manifest": {"sha256": blob.sha256, "size": 4, "chunk_size": blob.chunk_size, "chunks": list(blob.chunks)},
    }  # fmt: skip
    return [
        encode(Poll(may_train=True, wait_s=1.0)),
        encode(Wait(1.5, reason="none")),
        encode(Heartbeat("task", 0.5)),
        encode(Enrol("stayput.0", "ab" * 32)),
        json.dumps(offer).encode(),
        file,
        encode_tensors(tensors),
        file[8:].replace(b"  ", b"", 1).replace(b"}}", b"}}\0", 1),
        "\n".join(f"{name}: {value}" for name, value in signed.items()).encode(),
        b"stayput.0123456789abcdef." + b"a" * 43,
    ]
