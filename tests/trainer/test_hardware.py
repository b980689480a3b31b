"""Device and precision follow from what is there: CPU, Apple, a GPU with fp16 only, one with bf16, several of them."""

import pytest
import torch

from trainer.gpus import gpus
from trainer.hardware import Hardware, detect
from trainer.team import Team


def machine(monkeypatch: pytest.MonkeyPatch, *, cuda: int = 0, bf16: bool = False, mps: bool = False) -> list[int]:
    """Pretend to be a machine; returns the list of devices that were chosen."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: cuda)
    monkeypatch.setattr(torch.cuda, 'is_bf16_supported', lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, 'get_device_name', lambda place: f'GPU {place}')
    monkeypatch.setattr(torch.cuda, 'set_device', chosen.append)
    monkeypatch.setattr(torch.backends.mps, 'is_available', lambda: mps)
    return chosen


def test_a_gpu_with_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=1, bf16=True)
    found = detect()
    assert found == Hardware('cuda', 'bfloat16', 'GPU 0')
    assert found.dtype == torch.bfloat16


def test_a_gpu_with_fp16_only_keeps_its_weights_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=1)
    found = detect()
    assert found.precision == 'float16'
    assert found.dtype == torch.float32


def test_an_apple_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, mps=True)
    assert detect() == Hardware('mps', 'float32', 'Apple GPU')


def test_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C2."""
    machine(monkeypatch)
    found = detect()
    assert (found.device, found.precision, found.dtype) == ('cpu', 'float32', torch.float32)


def test_each_process_gets_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = machine(monkeypatch, cuda=2, bf16=True)
    for rank in range(3):
        monkeypatch.setenv('LOCAL_RANK', str(rank))
        detect()
    assert chosen == [0, 1, 0]


@pytest.mark.parametrize(('visible', 'count'), [('', 0), ('-1', 0), ('0', 1), ('0,1, 3', 3), ('GPU-aaaa,MIG-bbbb', 2)])
def test_gpus_are_counted_as_they_are_lent(monkeypatch: pytest.MonkeyPatch, visible: str, count: int) -> None:
    monkeypatch.setattr('trainer.gpus.metadata.version', lambda _: '2.13.0+cu130')
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', visible)
    assert gpus() == count


def test_a_training_stack_for_cpus_uses_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.gpus.metadata.version', lambda _: '2.13.0+cpu')
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '0,1')
    assert gpus() == 0


@pytest.mark.parametrize('size', [1, 2, 3])
@pytest.mark.parametrize('count', [0, 1, 2, 7, 8])
def test_shares_are_the_whole_in_its_order(size: int, count: int) -> None:
    items = list(range(count))
    shares = [Team(rank, size).share(items) for rank in range(size)]
    assert [item for share in shares for item in share] == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_alone_nobody_waits() -> None:
    alone = Team()
    assert alone.writes and alone.gather('x') == ['x'] and alone.any(True) and not alone.any(False)
    alone.wait()
