"""What a client claims of its update, with a signature of its own.

A request's signature is gone when the request is answered. This one is stored in the transaction that makes the update
count, so that anybody with the client's public key can check later what the client said: after a restore, in an audit
(`Claim.in_row`). Must not import torch or a web framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stayput.deploy.identity import SigningKey, signature_holds
from stayput.deploy.messages import OfferUpdate


@dataclass(frozen=True, slots=True)
class Claim:
    """A client's statement about its update."""

    task_id: str
    sha256: str
    """Of the update's bytes."""
    size: int
    num_examples: int
    """n_k."""
    num_steps: int
    train_loss: float
    signature: bytes

    @classmethod
    def in_message(cls, message: OfferUpdate) -> Claim:
        """The claim that a message makes."""
        return cls(
            message.task_id,
            message.manifest.sha256,
            message.manifest.size,
            message.num_examples,
            message.num_steps,
            message.train_loss,
            bytes.fromhex(message.signature),
        )

    @classmethod
    def in_row(cls, row: Mapping[str, Any]) -> Claim:
        """The claim of an update that counts, as the store has it (`Store.task_rows`)."""
        return cls(
            row["task"],
            row["sha256"],
            row["size"],
            row["num_examples"],
            row["num_steps"],
            row["train_loss"],
            row["signature"],
        )

    def signed_by(self, public_bytes: bytes) -> bool:
        """Whether the key's owner made this claim, to the last digit."""
        text = _signed_text(self.task_id, self.sha256, self.size, self.num_examples, self.num_steps, self.train_loss)
        return signature_holds(public_bytes, self.signature, text)


def sign_claim(
    key: SigningKey, *, task_id: str, sha256: str, size: int, num_examples: int, num_steps: int, train_loss: float
) -> Claim:
    """A client's own claim."""
    signature = key.sign(_signed_text(task_id, sha256, size, num_examples, num_steps, train_loss))
    return Claim(task_id, sha256, size, num_examples, num_steps, train_loss, signature)


def _signed_text(task_id: str, sha256: str, size: int, num_examples: int, num_steps: int, train_loss: float) -> bytes:
    loss = float(train_loss).hex()  # every bit, the same in every language
    return f"stayput-update-1\n{task_id}\n{sha256}\n{size}\n{num_examples}\n{num_steps}\n{loss}\n".encode()
