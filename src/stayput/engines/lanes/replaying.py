"""A step's operations, recorded once and replayed: on a CPU, what a CUDA graph is on a GPU.

A step of a small model takes as long in Python and in autograd's bookkeeping as in arithmetic. So while a step runs as
it is written, the operations that it comes down to are recorded, below autograd, with the tensors that they read and
write; from then on these operations alone are run, in the same order, to the same bits. What the step found in memory
(weights, rows of the schedule, counters) it finds at the same place in every step, and what it computed on the way gets
a fixed place, so that views are taken once and nothing is allocated.

What a step does outside of torch's operations is not seen: a number that it takes out of a tensor, or a tensor that it
makes of an array. A recording is therefore to be compared with a later step than it was made from; `stepping.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

Operation = Callable[..., Any]

CONVERSION = torch.ops.aten._to_copy.default  # noqa: SLF001 - what `Tensor.to` comes down to has no other name


class Seen(NamedTuple):
    """An operation as it ran."""

    operation: Any
    """A `torch._ops.OpOverload`."""
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any

    def read(self) -> Iterator[Tensor]:
        """The tensors that it was given."""
        return (leaf for leaf in tree_leaves((self.arguments, self.keywords)) if isinstance(leaf, Tensor))

    def made(self) -> list[Tensor]:
        """The tensors that it returned."""
        return [leaf for leaf in tree_leaves(self.result) if isinstance(leaf, Tensor)]


class Call(NamedTuple):
    """An operation with everything it needs."""

    operation: Operation
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own lacks types
    """Inside, operations run as ever, and are remembered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[Seen] = []  # with all its tensors, so that none takes the place of another meanwhile

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - torch's own signature
        """Run it, and remember it."""
        result = func(*args, **(kwargs or {}))
        self.seen.append(Seen(func, args, kwargs or {}, result))
        return result

    def calls(self) -> list[Call] | None:
        """What replays the operations, or None if a number was taken out of a tensor."""
        if any(isinstance(leaf, bool | int | float) for seen in self.seen for leaf in tree_leaves(seen.result)):
            return None
        return _Places(self.seen).calls()


def replay(calls: Sequence[Call]) -> None:
    """Run operations."""
    with torch.no_grad():
        for operation, arguments, keywords in calls:
            operation(*arguments, **keywords)


class _Places:
    """Where what is computed on the way lies in every replay."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self._seen = seen
        self._last_use: dict[int, int] = {}
        self._changed: set[int] = set()
        for position, each in enumerate(seen):
            for tensor in (*each.read(), *each.made()):
                self._last_use[_storage(tensor)] = position
            if each.operation._schema.is_mutable:  # noqa: SLF001 - torch has no other way to ask
                self._changed |= {_storage(tensor) for tensor in _written(each)}
        self._place_of: dict[int, torch.UntypedStorage] = {}
        self._free: dict[int, list[torch.UntypedStorage]] = {}

    def calls(self) -> list[Call]:
        """The operations, with places in place of the tensors that they were recorded with."""
        calls = []
        for position, each in enumerate(self._seen):
            read = {_storage(tensor) for tensor in each.read()}
            new = [tensor for tensor in each.made() if _storage(tensor) not in read]
            if each.operation._schema.is_mutable:  # noqa: SLF001 - as above
                if not _copies_onto_itself(each):
                    calls.append(self._placed(each.operation, each))
            elif new:
                constant = self._is_constant(each, new)
                for tensor in new:
                    self._give_place(tensor, reuse=not constant)
                call = self._computing(each)
                if constant:
                    replay([call])
                else:
                    calls.append(call)
            # else it made views, which are taken from places as they are needed
            for storage in {*read, *map(_storage, new)}:
                if self._last_use[storage] == position and storage in self._place_of:
                    place = self._place_of[storage]
                    self._free.setdefault(place.nbytes(), []).append(place)
        return calls

    def _is_constant(self, each: Seen, new: Sequence[Tensor]) -> bool:
        """Whether it makes the same of nothing in every step, and nobody writes into it."""
        random = torch.Tag.nondeterministic_seeded in each.operation.tags
        return not random and next(each.read(), None) is None and not {_storage(t) for t in new} & self._changed

    def _give_place(self, tensor: Tensor, *, reuse: bool) -> None:
        size = tensor.untyped_storage().nbytes()
        free = self._free.get(size) if reuse else None
        if not reuse:
            self._last_use[_storage(tensor)] = len(self._seen)
        self._place_of[_storage(tensor)] = free.pop() if free else torch.UntypedStorage(size)  # type: ignore[no-untyped-call]

    def _at_place(self, tensor: Tensor) -> Tensor:
        place = self._place_of.get(_storage(tensor))
        if place is None:
            return tensor.detach()
        return tensor.new_empty(0).set_(place, tensor.storage_offset(), tensor.shape, tensor.stride())

    def _placed(self, operation: Operation, each: Seen, **more: Any) -> Call:  # noqa: ANN401 - what operations take
        arguments, keywords = tree_map_only(Tensor, self._at_place, (each.arguments, each.keywords))
        return Call(operation, arguments, {**keywords, **more})

    def _computing(self, each: Seen) -> Call:
        """An operation that writes its results to their places."""
        into = [self._at_place(tensor) for tensor in each.made()]
        if each.operation is CONVERSION and set(each.keywords) == {"dtype"}:
            return Call(torch.ops.aten.copy_.default, (into[0], *self._placed(each.operation, each).arguments), {})
        found = _writing_form(each.operation)
        if found is not None and len(found[1]) == len(into) and not isinstance(each.result, list):
            operation, names = found
            return self._placed(operation, each, **dict(zip(names, into, strict=True)))
        plain = self._placed(each.operation, each)

        def run_and_copy(*arguments: Any, **keywords: Any) -> None:  # noqa: ANN401 - what operations take
            results = [leaf for leaf in tree_leaves(each.operation(*arguments, **keywords)) if isinstance(leaf, Tensor)]
            for place, result in zip(into, results, strict=True):
                place.copy_(result)

        return plain._replace(operation=run_and_copy)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() or id(tensor)  # an empty tensor has no address


def _written(each: Seen) -> Iterator[Tensor]:
    """The arguments that a mutating operation writes to."""
    schema = each.operation._schema.arguments  # noqa: SLF001 - as above
    by_name = {argument.name: value for argument, value in zip(schema, each.arguments, strict=False)} | each.keywords
    for argument in schema:
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from (leaf for leaf in tree_leaves(by_name.get(argument.name)) if isinstance(leaf, Tensor))


def _copies_onto_itself(each: Seen) -> bool:
    """As `a[:n] += b` ends."""
    if each.operation is not torch.ops.aten.copy_.default:
        return False
    into, source = each.arguments[:2]
    return bool(
        into.data_ptr() == source.data_ptr() and into.stride() == source.stride() and into.shape == source.shape
    )


def _writing_form(operation: Any) -> tuple[Operation, list[str]] | None:  # noqa: ANN401 - an OpOverload
    """The form of an operation that writes its results where it is told, and the names of these places."""
    plain = [(argument.name, str(argument.type)) for argument in operation._schema.arguments]  # noqa: SLF001 - as above
    packet = operation.overloadpacket
    for overload in packet.overloads():
        form = getattr(packet, overload)
        arguments = form._schema.arguments  # noqa: SLF001 - as above
        out = [argument.name for argument in arguments if argument.is_out]
        if out and [(argument.name, str(argument.type)) for argument in arguments if not argument.is_out] == plain:
            return form, out
    return None
