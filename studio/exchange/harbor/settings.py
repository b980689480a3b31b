"""task.toml of a Harbor task, schema 1.0 to 1.4: what of it the studio can keep, and what it says about the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from studio.documents.views import MAX_TOPIC_CHARS, MAX_TOPICS
from trainer.checkers.base import CHECK_TIMEOUT_S
from trainer.sandbox.protocol import Limits

KNOWN_SCHEMAS: Final = ('1.0', '1.1', '1.2', '1.3', '1.4')
MIN_TIMEOUT_S: Final = 1.0
MAX_TIMEOUT_S: Final = 3600.0
_SECTIONS: Final[Mapping[str, frozenset[str]]] = {
    'task': frozenset({'name', 'version', 'description', 'authors', 'keywords'}),
    'agent': frozenset({'timeout_sec', 'user', 'network_mode', 'allowed_hosts'}),
    'verifier': frozenset(
        {'timeout_sec', 'env', 'user', 'network_mode', 'allowed_hosts', 'environment_mode', 'environment', 'collect'}
    ),
    'solution': frozenset({'env'}),
    'environment': frozenset(
        {
            *(
                'build_timeout_sec',
                'docker_image',
                'os',
                'cpus',
                'memory_mb',
                'storage_mb',
                'memory',
                'storage',
                'gpus',
            ),
            *(
                'gpu_types',
                'tpu',
                'allow_internet',
                'network_mode',
                'allowed_hosts',
                'mcp_servers',
                'env',
                'skills_dir',
            ),
            *('healthcheck', 'workdir'),
        }
    ),
}
_TOP: Final = frozenset({'schema_version', 'version', 'metadata', 'source', 'artifacts', 'steps', *_SECTIONS})
_DROPPED: Final = frozenset({'multi_step_reward_strategy', 'multi_step_reward_mode'})


@dataclass
class HarborSettings:
    """What task.toml says, in the studio's words. ``refusals`` are things without which the task makes no sense."""

    name: str = ''
    description: str = ''
    topics: tuple[str, ...] = ()
    timeout_s: float = CHECK_TIMEOUT_S
    workdir: str = ''
    env: dict[str, str] = field(default_factory=dict)
    verifier_env: dict[str, str] = field(default_factory=dict)
    solution_env: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_settings(data: bytes) -> HarborSettings:
    """Read task.toml. Raises ``ValueError`` where it is no TOML."""
    try:
        raw = tomllib.loads(data.decode('utf-8-sig'))
    except UnicodeDecodeError as error:
        raise ValueError(f'not UTF-8 at byte {error.start}') from None
    except RecursionError:
        raise ValueError('nested too deep') from None
    settings = HarborSettings()
    sections = {name: _table(raw.get(name), name, settings) for name in _SECTIONS}
    _read_names(raw, sections['task'], settings)
    _read_schema(raw, settings)
    _read_needs(raw, sections, settings)
    _read_limits(sections, settings)
    _read_environments(sections, settings)
    _read_unknown(raw, sections, settings)
    return settings


def _table(value: Any, name: str, settings: HarborSettings) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        settings.refusals.append(f'[{name}] must be a table')
        return {}
    return value


def _read_names(raw: Mapping[str, Any], task: Mapping[str, Any], settings: HarborSettings) -> None:
    metadata = raw.get('metadata')
    metadata = metadata if isinstance(metadata, dict) else {}
    settings.name = str(task.get('name', '')).rsplit('/', 1)[-1]
    settings.description = str(task.get('description', '') or '')
    words = [*_texts(task.get('keywords')), *_texts(metadata.get('tags'))]
    words += [str(metadata[key]) for key in ('category', 'difficulty') if isinstance(metadata.get(key), str)]
    kept = dict.fromkeys(' '.join(word.split())[:MAX_TOPIC_CHARS] for word in words if word.strip())
    settings.topics = tuple(kept)[:MAX_TOPICS]


def _read_schema(raw: Mapping[str, Any], settings: HarborSettings) -> None:
    schema = str(raw.get('schema_version', raw.get('version', '1.0')))
    if schema not in KNOWN_SCHEMAS:
        settings.warnings.append(f'schema {schema} is not known here (the newest known is {KNOWN_SCHEMAS[-1]})')


def _read_needs(raw: Mapping[str, Any], sections: Mapping[str, dict[str, Any]], settings: HarborSettings) -> None:
    """What a sandbox without network, devices and images cannot give."""
    environment, verifier = sections['environment'], sections['verifier']
    steps = raw.get('steps')
    if isinstance(steps, list | dict) and steps:
        settings.refusals.append(
            f'the task has {len(steps)} steps with instructions of their own; a task here has one prompt'
        )
    elif steps:
        settings.refusals.append('steps must be a list of tables')
    if str(environment.get('os', 'linux')).lower() != 'linux':
        settings.refusals.append(f'it needs {environment["os"]}; the sandbox is Linux')
    if environment.get('gpus') or environment.get('gpu_types') or environment.get('tpu'):
        what = 'a TPU' if environment.get('tpu') else f'{environment.get("gpus") or 1} GPU'
        settings.refusals.append(f'it needs {what}; a sandbox has no accelerator')
    if environment.get('mcp_servers'):
        settings.refusals.append('it needs MCP servers; the model here has the four terminal tools')
    if verifier.get('collect'):
        settings.refusals.append('the commands of verifier.collect run in services; there are none here')
    _read_network(sections, settings)
    _read_left_out(sections, settings)


def _read_left_out(sections: Mapping[str, dict[str, Any]], settings: HarborSettings) -> None:
    environment, verifier = sections['environment'], sections['verifier']
    if environment.get('docker_image'):
        settings.warnings.append(f'the image {environment["docker_image"]} is not used: its files are not here')
    for name in ('healthcheck', 'skills_dir'):
        if environment.get(name):
            settings.warnings.append(f'environment.{name} is left out')
    if verifier.get('environment_mode') == 'separate':
        settings.warnings.append('the separate verifier environment is not built; every check has a fresh sandbox here')
    users = [f'{name}.user' for name in ('agent', 'verifier') if sections[name].get('user') is not None]
    if users:
        settings.warnings.append(f'{" and ".join(users)} left out: the sandbox has one user')


def _read_network(sections: Mapping[str, dict[str, Any]], settings: HarborSettings) -> None:
    environment = sections['environment']
    modes = {str(sections[name].get('network_mode')) for name in ('environment', 'agent', 'verifier')} - {'None'}
    hosts = [
        host for name in ('environment', 'agent', 'verifier') for host in _texts(sections[name].get('allowed_hosts'))
    ]
    if hosts or 'allowlist' in modes:
        listed = f' ({", ".join(hosts[:3])})' if hosts else ''
        settings.warnings.append(f'network: the allowed hosts{listed} cannot be reached; a sandbox has no network')
    elif 'public' in modes or environment.get('allow_internet') is True:
        settings.warnings.append('network: the task may use the internet in Harbor; a sandbox has no network')


def _read_limits(sections: Mapping[str, dict[str, Any]], settings: HarborSettings) -> None:
    environment, limits = sections['environment'], Limits()
    memory = _megabytes(environment, 'memory', settings)
    storage = _megabytes(environment, 'storage', settings)
    if memory > limits.memory_bytes // 1024**2:
        settings.warnings.append(f'memory: {memory:g} MB asked for, a sandbox has {limits.memory_bytes // 1024**2} MB')
    if storage > limits.disk_bytes // 1024**2:
        settings.warnings.append(f'storage: {storage:g} MB asked for, a sandbox has {limits.disk_bytes // 1024**2} MB')
    asked = _number(sections['verifier'].get('timeout_sec'), CHECK_TIMEOUT_S)
    settings.timeout_s = min(max(asked, MIN_TIMEOUT_S), MAX_TIMEOUT_S)
    if settings.timeout_s != asked:
        settings.warnings.append(f'verifier.timeout_sec {asked:g} became {settings.timeout_s:g} s')
    if 'timeout_sec' in sections['agent']:
        agent = sections['agent']['timeout_sec']
        settings.warnings.append(f'agent.timeout_sec {agent} left out: an episode ends by its number of tool calls')


def _megabytes(environment: Mapping[str, Any], name: str, settings: HarborSettings) -> float:
    """A size in MB; schema 1.0 wrote ``memory = "2G"``, later ones ``memory_mb = 2048``."""
    value = environment.get(f'{name}_mb')
    if value is not None:
        return _number(value, 0.0)
    text = str(environment.get(name, '')).strip().upper()
    if not text:
        return 0.0
    units = {'G': 1024.0, 'M': 1.0, 'K': 1 / 1024}
    if text[-1] in units and text[:-1].replace('.', '', 1).isdigit():
        return float(text[:-1]) * units[text[-1]]
    settings.warnings.append(f'environment.{name} {text!r} cannot be read')
    return 0.0


def _read_environments(sections: Mapping[str, dict[str, Any]], settings: HarborSettings) -> None:
    environment = sections['environment']
    workdir = environment.get('workdir')
    settings.workdir = workdir.rstrip('/') if isinstance(workdir, str) else ''
    settings.env = _variables(environment.get('env'), 'environment.env', settings)
    settings.verifier_env = _variables(sections['verifier'].get('env'), 'verifier.env', settings)
    settings.solution_env = _variables(sections['solution'].get('env'), 'solution.env', settings)
    if settings.env:
        names = ', '.join(settings.env)
        settings.warnings.append(f'environment.env ({names}) is set for the checker, not for the tools of the model')


def _variables(value: Any, name: str, settings: HarborSettings) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    kept = {key: str(text) for key, text in value.items() if '${' not in str(text)}
    if len(kept) < len(value):
        gone = ', '.join(key for key in value if key not in kept)
        settings.warnings.append(f'{name}: {gone} would come from the host; nothing of the host is passed on')
    return kept


def _read_unknown(raw: Mapping[str, Any], sections: Mapping[str, dict[str, Any]], settings: HarborSettings) -> None:
    unknown = [key for key in raw if key not in _TOP and key not in _DROPPED]
    unknown += [f'{name}.{key}' for name, known in _SECTIONS.items() for key in sections[name] if key not in known]
    if unknown:
        settings.warnings.append(f'task.toml has keys that are not known here: {", ".join(unknown[:8])}')


def _number(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return float(value) if is_number else default


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, Iterable) and value else []
