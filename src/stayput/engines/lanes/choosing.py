"""Which way a model is run over lanes: folded, else mapped, else it is refused.

What cannot be known by looking at a module, a trial finds: two lanes' examples through the model over lanes must give
what the plain module gives, and what it gives for fewer examples. A `forward` that mixes examples, or uses weights in
a way that was not foreseen, does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from stayput.core.tensors import WEIGHTS, Groups
from stayput.engines.lanes.folding import FoldedModel, refuse_unfoldable
from stayput.engines.lanes.layers import lane_layout
from stayput.engines.lanes.mapping import MappedModel
from stayput.engines.lanes.model_over_lanes import ModelOverLanes, cannot
from stayput.engines.lanes.objective import Minibatches
from stayput.engines.masks import stream_name
from stayput.engines.model_program import ModelProgram
from stayput.engines.placed_examples import PlacedExamples
from stayput.errors import ModelMisfit

RANDOM_LAYERS = (nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU)
TRIAL_EXAMPLES = 3
"""Of each lane in the trial."""


def choice_of_model(program: ModelProgram, data: PlacedExamples) -> ModelOverLanes:
    """The model over lanes, or `ModelMisfit` with the layer's name and the engine that can."""
    _refuse_hopeless(program.module)
    try:
        folded = FoldedModel(program.task, program.module, program.device)
        _refuse_different_outputs(folded, program, data)
    except ModelMisfit as why_not_folded:
        mapped = MappedModel(program.task, program.module, program.masks, program.device)
        try:
            _refuse_different_outputs(mapped, program, data)
        except ModelMisfit as why_not_mapped:
            raise ModelMisfit(f"{why_not_folded}; nor by vmap: {why_not_mapped}") from why_not_mapped
        return mapped
    return folded


def is_folded(module: nn.Module) -> bool:
    """Whether a module looks as if it could be folded, before any data is at hand."""
    try:
        _refuse_hopeless(module)
        refuse_unfoldable(module)
    except ModelMisfit:
        return False
    return True


def _refuse_hopeless(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, RANDOM_LAYERS):
            raise cannot(module, name, "is random in a way that lanes cannot repeat")
        if any(True for _ in layer.buffers(recurse=False)):
            raise cannot(module, name, "keeps state beside its weights, which lanes cannot share")
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    if frozen:
        raise cannot(module, "", f"weight {frozen[0]!r} is frozen, which the lanes engine does not do")


def _refuse_different_outputs(model: ModelOverLanes, program: ModelProgram, data: PlacedExamples) -> None:
    models = [program.initial_model(seed) for seed in (0, 1)]
    rows = torch.linspace(0, len(data) - 1, 2 * TRIAL_EXAMPLES, device=program.device).long()
    inputs, targets = data.batch(rows)
    names = torch.tensor([stream_name(seed, 1, seed) for seed in (0, 1)], device=program.device)
    gradient_L = torch.zeros(2, dtype=torch.int64, device=program.device)
    share_LB = torch.ones(2, TRIAL_EXAMPLES, dtype=program.dtype, device=program.device)
    program.module.train()
    try:
        minibatches = Minibatches(inputs, targets, share_LB[:, 0], share_LB, names, gradient_L)
        ours = model.outputs(_stacked(models), minibatches).detach()
    except Exception as error:
        sentence = " ".join(str(error).split())
        raise cannot(
            program.module, "", f"does not run on the examples of several lanes: {type(error).__name__}: {sentence}"
        ) from error
    for lane, plain_model in enumerate(models):
        mine = ours[lane * TRIAL_EXAMPLES : (lane + 1) * TRIAL_EXAMPLES]
        for count in range(1, TRIAL_EXAMPLES + 1):  # a smaller minibatch is padded, which must make no difference
            first = inputs[lane * TRIAL_EXAMPLES :][:count]
            plain = _plain_output(program, plain_model, first, names[lane : lane + 1], gradient_L[:1])
            if not _close(mine[:count], plain):
                raise cannot(
                    program.module,
                    "",
                    "gives other outputs when several lanes share a batch, or when a minibatch is padded: its forward "
                    "mixes examples, draws random numbers, or uses weights outside its layers",
                )


def _plain_output(program: ModelProgram, model: Groups, inputs: Tensor, name: Tensor, gradient: Tensor) -> Tensor:
    program.masks.begin_forward(name, gradient)
    with torch.no_grad():
        output: Tensor = torch.func.functional_call(program.module, dict(model[WEIGHTS]), (inputs,))
    return output


def _close(ours: Tensor, plain: Tensor) -> bool:
    tolerance = 1e-3 if ours.dtype == plain.dtype else 5e-2  # products rounded to bfloat16
    return ours.shape == plain.shape and torch.allclose(ours.to(plain.dtype), plain, rtol=tolerance, atol=tolerance)


def _stacked(models: Sequence[Groups]) -> dict[str, Tensor]:
    return {name: lane_layout(torch.stack([model[WEIGHTS][name] for model in models])) for name in models[0][WEIGHTS]}
