"""A device without hardware: its tensors have real values, and mixing them with those of the CPU fails as on a GPU.

torch lets Python register a device of its own. A tensor on this one wraps a tensor of the CPU. Every operation checks that all of
its tensors are on the device, computes with the wrapped ones, and wraps the result. Values are therefore those of a CPU: commands
run as a whole, and their figures can be compared. Threads and the backward pass need no special care.

What a GPU refuses is refused here too:

- operations on tensors of both devices, except copies, single numbers, and indices on the CPU into a tensor of the device;
- random numbers from a generator of the CPU;
- conversion to numpy without `.cpu()`;
- antialiased resizing of bytes.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

registration = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this torch cannot register a device from Python", allow_module_level=True)

NAME = "fakegpu"
aten = torch.ops.aten
COPIES = (aten.copy_.default, aten._to_copy.default, aten._copy_from.default)
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)


OPERATIONS: Counter[str] = Counter()
"""Operations on the device since it was last made available."""


class FakeTensor(Tensor):
    """A tensor on the device; `held` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "FakeTensor":
        with torch.inference_mode(held.is_inference()):  # in inference mode too, a view of a normal tensor is a normal tensor
            made: FakeTensor = Tensor._make_wrapper_subclass(
                cls,
                held.size(),
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=DEVICE,
            )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return compute(func, args, kwargs or {})

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.held.untyped_storage()

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def __reduce_ex__(self, protocol: Any) -> Any:  # a file is read back onto the CPU
        return self.detach().cpu().__reduce_ex__(protocol)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{self.held!r} on {NAME}"


def compute(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return an operation's result, on the device unless it is a copy to another one."""
    if (composed := operation.decompose(*args, **kwargs)) is not NotImplemented:  # in inference mode torch leaves that to us
        return composed
    require_one_device(operation, args, kwargs)
    target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else DEVICE
    bare_args, bare = tree_map_only(FakeTensor, lambda tensor: tensor.held, (args, kwargs))
    if "device" in bare:
        bare["device"] = torch.device("cpu")
    OPERATIONS[operation.overloadpacket.__name__] += 1
    found = operation(*bare_args, **bare)
    if target.type != NAME:
        return found
    # In-place operations return their argument itself.
    known = {id(tensor.held): tensor for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, FakeTensor)}
    on_cpu = {id(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, Tensor)}
    return tree_map_only(Tensor, lambda t: t if id(t) in on_cpu else known[id(t)] if id(t) in known else FakeTensor(t), found)


def require_one_device(operation: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Refuse what a GPU refuses."""
    if operation in COPIES:
        return
    checked: Any = (args, kwargs)
    if operation in INDEXED and isinstance(args[0], FakeTensor):
        checked = (args[0], args[2:], kwargs)
    mixed = [tensor for tensor in tree_leaves(checked) if isinstance(tensor, Tensor) and not isinstance(tensor, FakeTensor)]
    if any(tensor.ndim for tensor in mixed):
        raise RuntimeError(f"{operation}: Expected all tensors to be on the same device, but found {NAME}:0 and cpu")
    if kwargs.get("generator") is not None:
        raise RuntimeError(f"{operation}: Expected a {NAME} generator, but found one of the cpu")
    if "upsample" in str(operation) and args[0].dtype == torch.uint8:
        raise RuntimeError(f"{operation}: not implemented for 'Byte'")


class _Module:
    """`torch.fakegpu`. The device is there only while a test uses it."""

    count = 0

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return self.count > 0

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return self.count

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Its random numbers come from the CPU's generator."""

    def get_rng_state(self, device: Any) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any) -> None:
        """Nothing: see above."""


class _Hook(registration._DummyPrivateUse1Hook):  # type: ignore[name-defined, misc]
    def is_available(self) -> bool:
        return _MODULE.is_available()


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> Tensor:
    return FakeTensor(torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return FakeTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    into, values = (tensor.held if isinstance(tensor, FakeTensor) else tensor for tensor in (target, source))
    into.copy_(values)
    return target


_MODULE = _Module()
registration._setup_privateuseone_for_python_backend(NAME, backend_module=_MODULE, hook=_Hook())
DEVICE = torch.device(NAME, 0)
_KERNELS = torch.library.Library("aten", "IMPL")  # where no argument is on the device, or torch goes around the class
_KERNELS.impl("empty.memory_format", _empty, "PrivateUse1")
_KERNELS.impl("empty_strided", _empty_strided, "PrivateUse1")
_KERNELS.impl("_copy_from", _copy_from, "PrivateUse1")


@contextmanager
def fake_device(*, resizes: bool) -> Iterator[torch.device]:
    """Within it, every Accelerator computes on the device. `resizes`: images too, as on CUDA; else as on other devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_MODULE, "count", 1)
        OPERATIONS.clear()
        patch.setattr(Accelerator, "device", DEVICE)
        patch.setattr("aevlp.damp.scoring.can_resize", lambda device: resizes or device.type == "cpu")
        yield DEVICE
