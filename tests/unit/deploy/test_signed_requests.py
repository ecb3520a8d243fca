from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stayput.deploy.identity import KnownKey, Role, SigningKey
from stayput.deploy.nonces import NonceMemory
from stayput.deploy.schemas import PROTOCOL
from stayput.deploy.signed_requests import NO_BODY, ClientClock, RequestVerifier, new_boot, sign_request
from stayput.errors import AccessDenied, ProtocolMismatch

NOW = 1_700_000_000.0
KEY, OTHER = SigningKey.generate(), SigningKey.generate()
BOOT = new_boot()
BODY = hashlib.sha256(b"body").hexdigest()


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


def verifier(**changes):
    keys = {
        KEY.key_id: KnownKey(KEY.public_bytes, "clinic-7", **changes),
        OTHER.key_id: KnownKey(OTHER.public_bytes, "clinic-8"),
    }
    return RequestVerifier(BOOT, keys.get, Clock(), NonceMemory(60.0))


def signed(key=KEY, method="POST", target="/v1/poll?a=b", body=BODY, boot=BOOT, now=NOW, nonce=None):
    return sign_request(key, method, target, body, boot=boot, now=now, nonce=nonce)


def code(check, headers, method="POST", target="/v1/poll?a=b", **named):
    with pytest.raises(AccessDenied) as refusal:
        check.verify(method, target, headers, **named)
    return refusal.value.code


def test_a_signed_request_is_its_key_owners():
    caller = verifier().verify("POST", "/v1/poll?a=b", signed())
    assert (caller.key_id, caller.name, caller.role) == (KEY.key_id, "clinic-7", Role.CLIENT)
    caller.check_body(BODY)
    with pytest.raises(AccessDenied) as refusal:
        caller.check_body(NO_BODY)
    assert refusal.value.code == "altered-body"


@pytest.mark.parametrize("header", sorted(signed()))
def test_a_request_without_one_of_the_headers_is_nobodys(header):
    headers = {name: value for name, value in signed().items() if name != header}
    assert code(verifier(), headers) == "no-credentials"


@pytest.mark.parametrize("header", sorted(signed()))
@pytest.mark.parametrize("value", ["", "x", "\u0661", "1\n", " 1", "-1", "f" * 5000])
def test_a_header_of_another_form_is_no_credential(header, value):
    assert code(verifier(), {**signed(), header: value}) in {"no-credentials", "bad-signature"}


@pytest.mark.parametrize(
    "header", ["stayput-time", "stayput-nonce", "stayput-boot", "stayput-body-sha256", "stayput-signature"]
)
def test_no_part_can_be_altered(header):
    headers = signed()
    old = headers[header]
    headers[header] = ("1" if old[0] != "1" else "2") + old[1:]
    assert code(verifier(), headers) == "bad-signature"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/poll?a=b"),
        ("POST", "/v1/poll"),
        ("POST", "/v1/poll?a=c"),
        ("POST", "/v1/Poll?a=b"),
        ("POST", "//v1/poll?a=b"),
    ],
)
def test_a_signature_is_for_one_method_and_target(method, target):
    assert code(verifier(), signed(), method, target) == "bad-signature"


def test_a_request_under_anothers_id_is_refused():
    assert code(verifier(), {**signed(), "stayput-key": OTHER.key_id}) == "bad-signature"
    assert code(verifier(), signed(SigningKey.generate())) == "unknown-key"


def test_who_may_no_longer_act_is_told_so_but_only_the_key_owner():
    assert code(verifier(revoked=True), signed()) == "revoked-key"
    assert code(verifier(expires_at=NOW), signed()) == "expired-key"
    assert verifier(expires_at=NOW + 0.1).verify("POST", "/v1/poll?a=b", signed())
    assert code(verifier(), signed(), roles=(Role.OPERATOR,)) == "wrong-role"
    stranger = {**signed(OTHER), "stayput-key": KEY.key_id}
    assert code(verifier(revoked=True), stranger) == "bad-signature"


def test_a_request_counts_once():
    check, headers = verifier(), signed()
    check.verify("POST", "/v1/poll?a=b", headers)
    assert code(check, headers) == "replayed-nonce"
    assert check.verify("POST", "/v1/poll?a=b", signed())
    assert check.verify("POST", "/v1/poll?a=b", signed(OTHER, nonce=headers["stayput-nonce"])), "a nonce is its key's"


def test_a_nonce_with_another_time_is_another_request_but_a_recorded_one_stays_refused():
    check, headers = verifier(), signed()
    check.verify("POST", "/v1/poll?a=b", headers)
    check.clock.now += 59.9
    assert code(check, headers) == "replayed-nonce"
    check.clock.now += 1
    assert code(check, headers) == "clock-skew", "by the time the nonce is forgotten, the request is too old"


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_client_with_a_wrong_clock_is_told_and_repeats(hours):
    check = verifier()
    own = Clock()
    own.now += hours * 3600
    clock = ClientClock(own)
    assert code(check, signed(now=clock.now())) == "clock-skew"
    sent_at = own.now
    own.now += 0.2
    clock.learn(check.clock(), sent_at, own.now)
    assert clock.now() == pytest.approx(NOW + 0.1)
    assert check.verify("POST", "/v1/poll?a=b", signed(now=clock.now()))


def test_a_request_is_for_one_process():
    headers = signed(boot="")
    assert code(verifier(), headers) == "stale-boot"
    after_a_restart = RequestVerifier(new_boot(), verifier().keys, Clock(), NonceMemory(60.0))
    assert code(after_a_restart, signed()) == "stale-boot", "recorded before the restart, replayed after it"


@pytest.mark.parametrize(("protocol", "side"), [(str(PROTOCOL + 1), "this side"), ("0", "the other side")])
def test_another_protocol_is_told_as_such(protocol, side):
    with pytest.raises(ProtocolMismatch, match=f"upgrade stayput on {side}"):
        verifier().verify("POST", "/v1/poll?a=b", {**signed(), "stayput-protocol": protocol})


def test_a_newcomer_proves_that_the_key_is_its_own():
    newcomer, check = SigningKey.generate(), verifier()
    headers = signed(newcomer, target="/v1/enrol")
    assert check.verify_newcomer("POST", "/v1/enrol", headers, newcomer.public_bytes).key_id == newcomer.key_id
    for wrong in (KEY.public_bytes, b"", bytes(32)):
        with pytest.raises(AccessDenied, match="another key than the one it enrols"):
            check.verify_newcomer("POST", "/v1/enrol", headers, wrong)
    with pytest.raises(AccessDenied, match="signature"):
        check.verify_newcomer("POST", "/v1/enrol2", headers, newcomer.public_bytes)
    assert len(check.nonces) == 0, "strangers cannot fill the memory"


@pytest.mark.parametrize(("method", "target"), [("POST\nx", "/"), ("POST", "/v1\n/poll"), ("POST", "\n")])
def test_a_line_end_cannot_move_the_borders_of_what_is_signed(method, target):
    with pytest.raises(AccessDenied, match="line end"):
        signed(method=method, target=target)


@given(
    st.dictionaries(
        st.sampled_from(sorted(signed())), st.text(max_size=130) | st.from_regex("[0-9a-f]{128}", fullmatch=True)
    )
)
@settings(max_examples=60)
def test_any_headers_are_refused_unless_signed(changes):
    headers = {**signed(), **changes}
    try:
        caller = verifier().verify("POST", "/v1/poll?a=b", headers)
    except (AccessDenied, ProtocolMismatch):
        return
    assert caller.key_id == KEY.key_id
    assert all(signed(nonce=headers["stayput-nonce"])[name] == headers[name] for name in headers)


def test_one_key_cannot_fill_the_memory_and_a_full_memory_forgets_nothing():
    memory = NonceMemory(60.0, capacity=5, per_key=3)
    for nonce in "abc":
        memory.remember("loud", nonce, NOW, NOW)
    with pytest.raises(AccessDenied, match="come back later"):
        memory.remember("loud", "d", NOW, NOW)
    memory.remember("quiet", "a", NOW, NOW)
    memory.remember("quiet", "b", NOW, NOW)
    with pytest.raises(AccessDenied, match="come back later"):
        memory.remember("third", "a", NOW, NOW)
    with pytest.raises(AccessDenied, match="seen before"):
        memory.remember("loud", "a", NOW, NOW)
    memory.remember("third", "a", NOW + 62, NOW + 62)
    assert len(memory) == 1


class Nonces(RuleBasedStateMachine):
    """The memory against a list of everything that was ever taken."""

    @initialize()
    def begin(self):
        self.memory = NonceMemory(10.0, capacity=12, per_key=6)
        self.now = 1000.0
        self.taken: list[tuple[str, str, float]] = []

    def remembered(self):
        return [each for each in self.taken if int(each[2]) >= int(self.now - 10) - 1]

    @rule(
        key=st.sampled_from("AB"), nonce=st.sampled_from("abcdefgh"), offset=st.integers(-10, 10), again=st.booleans()
    )
    def request(self, key, nonce, offset, again):
        if again and self.taken:
            key, nonce, time = self.taken[-1]
        else:
            time = self.now + offset
        if abs(time - self.now) > 10:
            return  # the verifier refuses it before the memory is asked
        there = self.remembered()
        seen = any(each[:2] == (key, nonce) and int(each[2]) == int(time) for each in self.taken)
        full = len(there) >= 12 or Counter(each[0] for each in there)[key] >= 6
        if seen or full:
            with pytest.raises(AccessDenied) as refusal:
                self.memory.remember(key, nonce, time, self.now)
            assert refusal.value.code == ("replayed-nonce" if seen else "too-many-requests")
        else:
            self.memory.remember(key, nonce, time, self.now)
            self.taken.append((key, nonce, time))

    @rule(seconds=st.integers(0, 15))
    def wait(self, seconds):
        self.now += seconds

    @invariant()
    def bounded(self):
        if hasattr(self, "memory"):
            assert len(self.memory) <= 12


TestNonces = Nonces.TestCase
TestNonces.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
