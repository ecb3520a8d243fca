"""The paper's own numbers, and what it takes to put ours beside them."""
