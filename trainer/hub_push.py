"""Pushing a folder to a model hub: ``python -m trainer.hub_push --folder DIR`` reports JSON lines (``side_work``).

The first line of stdin is a JSON object with ``token``, ``repo`` and ``private``. The token is used for this push and
stands nowhere else: not in arguments, not in the environment, not in any message.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from huggingface_hub import CommitOperationAdd, HfApi, constants, get_session
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from trainer import side_work
from trainer.errors import ConfigError, FieldError

ANSWER_S: Final = 15.0
LOST: Final = cast('type[Exception]', HfHubHTTPError.__mro__[1])
"""What the HTTP client of the hub's library raises where nobody answers; which client it is changes."""
OURS: Final = ('README.md', 'lineage.json', 'merge.json')
"""Texts of ours, which may name where the base model lies on this machine."""


def push(folder: Path, order: Mapping[str, Any], report: side_work.Reporter) -> dict[str, Any]:
    """Upload the files of a folder as one commit. Raises ``ConfigError`` at ``token``, ``repo`` or ``folder``."""
    token, repo, private = str(order['token']), str(order['repo']), bool(order['private'])
    with _explained(repo, token):
        report('Asking the hub who this token is')
        get_session().head(constants.ENDPOINT, timeout=ANSWER_S)
        api = HfApi(token=token, library_name='rlvr-studio')
        owner = str(api.whoami()['name'])
        repo = repo if '/' in repo else f'{owner}/{repo}'
        api.create_repo(repo, private=private, exist_ok=True)
        _check_private(api, repo, private=private)
        files = _files(folder)
        additions = [_addition(folder, path) for path in files]
        total, sent = sum(path.stat().st_size for path in files), 0
        for path, addition in zip(files, additions, strict=True):
            report(f'Uploading {path.name}', sent, total)
            api.preupload_lfs_files(repo, [addition])
            sent += path.stat().st_size
        report('Writing the commit', sent, total)
        made = api.create_commit(repo, additions, commit_message='Upload from RLVR Studio')
    return {'repo': repo, 'url': f'{constants.ENDPOINT}/{repo}', 'commit': made.oid, 'private': private}


def _check_private(api: HfApi, repo: str, *, private: bool) -> None:
    if private and not api.repo_info(repo).private:
        raise _refused(
            'repo', f'{repo} is there already, and everybody can read it', 'Choose another name, or push it as public.'
        )


def _files(folder: Path) -> list[Path]:
    """The files to upload, the largest last: what can go wrong goes wrong soon."""
    found = [path for path in folder.rglob('*') if path.is_file() and not _hidden(path.relative_to(folder))]
    if not found:
        raise _refused('folder', f'{folder} holds no files')
    return sorted(found, key=lambda path: (path.stat().st_size, path.name))


def _hidden(path: Path) -> bool:
    return any(part.startswith('.') for part in path.parts)


def _addition(folder: Path, path: Path) -> CommitOperationAdd:
    name = str(path.relative_to(folder))
    if name not in OURS:
        return CommitOperationAdd(name, path)
    return CommitOperationAdd(name, for_others(path.read_text(encoding='utf-8'), name, _base(folder)).encode('utf-8'))


def for_others(text: str, name: str, base: Mapping[str, Any]) -> str:
    """A text without what means nothing on another machine: the path of a local base model, its name as a hub id."""
    if base.get('kind') in ('eligible', 'hub'):
        return text
    if name == 'README.md':
        head, mark, rest = text.partition('\n---\n')
        text = '\n'.join(line for line in head.split('\n') if not line.startswith('base_model:')) + mark + rest
    path = str(base.get('id', ''))
    return text.replace(path, Path(path).name) if base.get('kind') == 'local' and path.startswith('/') else text


def _base(folder: Path) -> Mapping[str, Any]:
    """The base model as the lineage names it; a merged folder has none, and what it says names no path."""
    try:
        lineage = json.loads((folder / 'lineage.json').read_text(encoding='utf-8'))
        model = lineage['model']
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {'kind': 'hub'}
    return model if isinstance(model, dict) else {'kind': 'hub'}


@contextmanager
def _explained(repo: str, token: str) -> Iterator[None]:
    """Put what the hub or the network answered into sentences that never hold the token."""
    try:
        yield
    except ConfigError:
        raise
    except HFValidationError as error:
        raise _refused('repo', _without(str(error), token)) from None
    except OfflineModeIsEnabled:
        raise _refused('repo', 'HF_HUB_OFFLINE is set: the hub is not asked', 'Unset it, and try again.') from None
    except Exception as error:
        # Of whichever client is below: a file that the hub refuses, a connection that was lost halfway.
        raise _failed(error, repo, token) from None


def _failed(error: BaseException, repo: str, token: str) -> ConfigError:
    """Why a push failed; what an upload says of itself is less than what it was raised from."""
    if isinstance(error, HfHubHTTPError):
        return _answered(error, repo, token)
    if isinstance(error, LOST):
        return _refused(
            'repo',
            f'The hub at {constants.ENDPOINT} does not answer ({type(error).__name__})',
            'See whether this machine is online. HF_ENDPOINT names another hub.',
        )
    if error.__cause__ is not None:
        return _failed(error.__cause__, repo, token)
    said = str(error).strip().splitlines() or [type(error).__name__]
    return _refused('folder', _without(f'The push failed: {said[0][:300]}', token), 'Try again.')


def _answered(error: HfHubHTTPError, repo: str, token: str) -> ConfigError:
    status = error.response.status_code if error.response is not None else 0
    if status == 401:
        return _refused('token', 'The hub does not know this token', 'Make one with write access, and paste it whole.')
    if status == 403:
        return _refused('token', f'This token may not write to {repo}', 'It needs write access to that owner.')
    if status == 429:
        return _refused('repo', 'The hub wants fewer requests for now', 'Try again in a while.')
    said = error.server_message or str(error).splitlines()[0]
    return _refused('repo', _without(f'The hub answered {status}: {said}'[:400], token), 'Try again in a while.')


def _without(text: str, token: str) -> str:
    return text.replace(token, '…') if token else text


def _refused(loc: str, message: str, hint: str = '') -> ConfigError:
    return ConfigError(message, [FieldError(loc=loc, msg=message)], hint=hint)


def main(arguments: Sequence[str] | None = None) -> int:
    """Push, reporting JSON lines; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m trainer.hub_push', description='Push a folder to a model hub.')
    parser.add_argument('--folder', type=Path, required=True)
    options = parser.parse_args(arguments)
    order = json.loads(sys.stdin.buffer.readline())
    return side_work.run(lambda report: push(options.folder, order, report))


if __name__ == '__main__':
    sys.exit(main())
