"""The lanes engine: many clients, of many experiments, advance together as one tensor program.

schedule.py   the host's side: which client's which minibatch each lane takes at each step
layers.py     layers over stacked weights, the step of SGD fused into their backward pass
folding.py    an ordinary module, run on the examples of all lanes at once
stepping.py   one step of all lanes, captured in a CUDA graph where there is CUDA
engine.py     a round: pack, load, step, sum up
"""

from __future__ import annotations

from stayput.engines.lanes.engine import LanesEngine

__all__ = ["LanesEngine"]
