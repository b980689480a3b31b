"""Writing an adapter into the weights of its base model: a model folder of its own, and what that changed, measured.

``python -m trainer.merge --model M --adapter DIR --out DIR [--dtype bfloat16]`` reports JSON lines (``side_work``).
The folder appears whole or not at all: it is written aside, read back, measured, and renamed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, get_args

import psutil
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer import side_work
from trainer.checkpoints import sha256
from trainer.engines import generate, open_engine
from trainer.errors import ConfigError, FieldError
from trainer.hardware import Hardware
from trainer.manifest import read_manifest
from trainer.merged_model import BESIDE, BYTES, MERGE_FILE, Drift, Dtype, MergedModel, bytes_needed, check_adapter
from trainer.models import ASSETS, ModelInfo, find_model
from trainer.policy import load_model, load_tokenizer, without_warnings
from trainer.rollout.chat import Chat

PROMPTS: Final = 20
ANSWER_TOKENS: Final = 48
BATCH: Final = 5
"""Prompts answered at once."""
PATIENCE_S: Final = 180.0
"""Seconds of measuring after which no more prompts are begun, each time: a large model on a CPU is slow."""
LIBRARIES: Final = ('torch', 'transformers', 'peft', 'rlvr-studio')

Report = Callable[[str, int, int], None]


def merge(
    model: ModelInfo,
    adapter: Path,
    out: Path,
    *,
    dtype: Dtype = 'float32',
    prompts: Sequence[str] = (),
    report: Report = lambda text, done, total: None,
) -> MergedModel:
    """Merge an adapter into its base and write the model into ``out``, which must not exist.

    ``prompts``: instructions of tasks to measure with; those of the tutorial fill up to ``PROMPTS``.
    Raises ``ConfigError`` at ``adapter``, ``out`` or ``model``; then nothing is left behind.
    """
    check_adapter(adapter)
    _check_target(out, bytes_needed(model, dtype))
    asked = _prompts(prompts)
    with _aside(out) as folder:
        report('Loading base model and adapter', 0, 0)
        with without_warnings():
            policy = load_model(model, Hardware('cpu', 'float32', 'CPU'), adapter=adapter)
        parameters = policy.get_base_model().num_parameters()
        _check_target(out, parameters * BYTES[dtype] + BESIDE)
        tokenizer = _tokenizer(adapter, model)
        ids = _rendered(tokenizer, asked)
        answers = _greedy(policy, tokenizer, ids, report)
        ids = ids[: len(answers)]
        before = _along(policy, ids, answers)
        report('Merging', 0, 0)
        _write(policy, tokenizer, folder, dtype)
        del policy
        gc.collect()
        report('Reading the merged model back', 0, 0)
        merged = AutoModelForCausalLM.from_pretrained(folder, dtype='auto').eval()
        report('Comparing with base and adapter', 0, 0)
        after = _along(merged, ids, answers)
        facts = _facts(model, adapter, dtype, parameters, _drift(answers, before, after))
        (folder / 'README.md').write_text(_card(facts, model), encoding='utf-8')
        report('Computing checksums', 0, 0)
        sums = {path.name: sha256(path) for path in sorted(folder.iterdir())}
        facts = facts.model_copy(update={'files': sums})
        text = json.dumps(facts.model_dump(mode='json'), ensure_ascii=False, indent=1)
        (folder / MERGE_FILE).write_text(text + '\n', encoding='utf-8')
        try:
            folder.rename(out)
        except OSError as error:
            raise _refused(out, f'{out} could not be made: {error.strerror}') from error
    return facts


def _greedy(policy: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], report: Report) -> list[list[int]]:
    """Greedy answers to prompts (token ids), to fewer of them where that takes very long."""
    engine = open_engine('plain', policy, tokenizer)
    answers: list[list[int]] = []
    began = time.monotonic()
    for start in range(0, len(prompts), BATCH):
        report('Answering with base and adapter', start, len(prompts))
        if start and time.monotonic() - began > PATIENCE_S:
            break
        batch = prompts[start : start + BATCH]
        turns = generate(engine, batch, [ANSWER_TOKENS] * len(batch), temperature=0)
        answers.extend(turn.ids for turn in turns)
    return answers


def _along(model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """The logits [tokens, words] along each answer, on the CPU in float32."""
    return [_logits(model, prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]


def _logits(model: Any, prompt: Sequence[int], answer: Sequence[int]) -> torch.Tensor:
    """Logits [tokens, words] from which each token of an answer was chosen."""
    ids = torch.tensor([[*prompt, *answer[:-1]]], device=model.device)
    with torch.no_grad():
        logits = model(input_ids=ids, logits_to_keep=len(answer), use_cache=False).logits[0, -len(answer) :]
    return logits.float().cpu()  # type: ignore[no-any-return]


def _drift(answers: Sequence[Sequence[int]], before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> Drift:
    """Compare logits along answers: a model whose every choice along an answer is its next token gives that answer.

    So the answers need not be generated again; and where an engine folded the adapter in to find them, an answer counts
    only where the model as it is, the adapter beside it, gives it too.
    """
    led = [[logits.argmax(-1).tolist() for logits in several] for several in (before, after)]
    return Drift(
        prompts=len(answers),
        tokens=ANSWER_TOKENS,
        equal=sum(list(answer) == one == other for answer, one, other in zip(answers, *led, strict=True)),
        max_logit=max(float((one - other).abs().max()) for one, other in zip(before, after, strict=True)),
    )


def _write(policy: Any, tokenizer: Any, folder: Path, dtype: Dtype) -> None:
    """Merge in float32, round once, and save weights, tokenizer, chat template and generation settings."""
    _untie(policy)
    with without_warnings():
        merged = policy.merge_and_unload(safe_merge=True).to(getattr(torch, dtype))
        if getattr(merged.config, 'quantization_config', None) is not None:  # it came as a GGUF file, and is dense now
            del merged.config.quantization_config
        merged.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _untie(policy: Any) -> None:
    """Give head and embedding weights of their own where they are one tensor and the adapter changes one of them."""
    base = policy.get_base_model()
    head, embedding = base.get_output_embeddings(), base.get_input_embeddings()
    layers = [layer for layer in (head, embedding) if hasattr(layer, 'get_base_layer')]
    if not layers or head is None or head.weight.data_ptr() != embedding.weight.data_ptr():
        return
    layers[0].get_base_layer().weight = torch.nn.Parameter(layers[0].get_base_layer().weight.detach().clone())
    base.config.get_text_config().tie_word_embeddings = False
    base.config.tie_word_embeddings = False


def _tokenizer(adapter: Path, model: ModelInfo) -> Any:
    """The tokenizer saved with the adapter, whose chat template is the one of training; else that of the base."""
    if not (adapter / 'tokenizer_config.json').is_file():
        return load_tokenizer(model)
    tokenizer = AutoTokenizer.from_pretrained(adapter)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _rendered(tokenizer: Any, prompts: Sequence[str]) -> list[list[int]]:
    chat = Chat(tokenizer)
    return [chat.prompt_ids(prompt) for prompt in prompts]


def _prompts(given: Sequence[str]) -> list[str]:
    """``PROMPTS`` different prompts: those given first, then those of the tutorial."""
    tutorial = (task.task_spec.prompt for task in read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl'))
    return list(dict.fromkeys([*given, *tutorial]))[:PROMPTS]


def _check_target(out: Path, needed: int | None) -> None:
    if out.exists() or out.is_symlink():
        raise _refused(out, f'{out} exists already', hint='Nothing is written over: choose another folder.')
    parent = out.parent
    if not parent.is_dir():
        raise _refused(out, f'{parent} is no folder', hint='Make it first, or choose another one.')
    free = shutil.disk_usage(parent).free
    if needed is not None and free < needed:
        raise _refused(
            out,
            f'The merged model needs {needed / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free on the disk of {parent}',
            hint='Free some space, choose another disk, or merge to bfloat16, which takes half of float32.',
        )


def _refused(out: Path, message: str, *, hint: str = '') -> ConfigError:
    return ConfigError(message, [FieldError(loc='out', msg=message)], hint=hint)


@contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` to write into; gone when the work ended without renaming it, or was killed before."""
    for left in out.parent.glob(f'.{out.name}.*.partial'):
        owner = left.name.split('.')[-2]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    folder = out.with_name(f'.{out.name}.{os.getpid()}.partial')
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _facts(model: ModelInfo, adapter: Path, dtype: Dtype, parameters: int, drift: Drift) -> MergedModel:
    lineage = _lineage(adapter)
    run, step = lineage.get('run'), lineage.get('step')
    return MergedModel(
        base=model.id if model.kind != 'local' else model.title,
        dtype=dtype,
        parameters=parameters,
        adapter_sha256=sha256(adapter / 'adapter_model.safetensors'),
        run=str(run.get('name') or run.get('id') or '') if isinstance(run, dict) else '',
        step=step if isinstance(step, int) else None,
        drift=drift,
        files={},
        libraries={name: version(name) for name in LIBRARIES},
        created_at=datetime.now(UTC),
    )


def _lineage(adapter: Path) -> dict[str, Any]:
    try:
        read = json.loads((adapter / 'lineage.json').read_text(encoding='utf-8'))
    except (FileNotFoundError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _card(facts: MergedModel, model: ModelInfo) -> str:
    """README.md: what the model is made of, how far it is from that, and how to load it."""
    known = model.kind in ('eligible', 'hub')
    base = f'base_model: {model.id}\nbase_model_relation: finetune\n' if known else ''
    trained = ' '.join(
        filter(
            None, (f'from the run "{facts.run}"' if facts.run else '', f'at step {facts.step}' if facts.step else '')
        )
    )
    drift, of = facts.drift, f'{facts.drift.equal} of {facts.drift.prompts}'
    return f"""---
library_name: transformers
{base}tags: [rlvr, merged]
---
# {facts.run or model.title}, merged

`{facts.base}` with a LoRA adapter {trained} written into its weights, in {facts.dtype}.
`{MERGE_FILE}` holds the checksum of the adapter, of every file, and the library versions.

Against base and adapter in float32, on {drift.prompts} prompts of tasks, answered greedily with at most {drift.tokens}
tokens: {of} answers are the same; the largest difference of a logit is {drift.max_logit:.2g}.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH/TO/THIS/FOLDER", dtype="auto")
tokenizer = AutoTokenizer.from_pretrained("PATH/TO/THIS/FOLDER")
```
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge, reporting JSON lines; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m trainer.merge', description='Merge an adapter into its base.')
    parser.add_argument('--model', required=True)
    parser.add_argument('--adapter', type=Path, required=True)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--dtype', choices=get_args(Dtype), default='float32')
    parser.add_argument('--tasks', type=Path, help='manifest whose prompts are measured with')
    options = parser.parse_args(arguments)

    def work(report: side_work.Reporter) -> dict[str, Any]:
        prompts = [task.task_spec.prompt for task in read_manifest(options.tasks)] if options.tasks else []
        model = find_model(options.model)
        done = merge(model, options.adapter, options.out, dtype=options.dtype, prompts=prompts, report=report)
        return {**done.model_dump(mode='json'), 'folder': str(options.out)}

    return side_work.run(work)


if __name__ == '__main__':
    sys.exit(main())
