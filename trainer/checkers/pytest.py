"""The ``pytest`` checker: the share of the author's tests that pass over the candidate's files.

The tests come from the task, never from the workspace, and what they define is the denominator: missing, skipped,
xfailed and errored tests are not passed. Code under test runs in the process that runs the tests, as pytest does it;
``trainer.checkers.inside`` says how that is guarded and what it does not stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainer.checkers.base import CheckContext, CheckerConfig
from trainer.checkers.pytest_check import check_tests
from trainer.errors import CheckerError
from trainer.paths import workspace_path
from trainer.validation import Document
from trainer.verdict import Verdict

EVERYTHING = '.'


def _test_path(text: str) -> str:
    path, mark, test = text.partition('::')
    if mark and not test:
        raise ValueError(f'{text!r} ends after ::, name the test')
    if not mark and path.strip() in ('.', './'):
        return EVERYTHING
    return workspace_path(path, folder=not mark) + mark + test


TestPath = Annotated[str, AfterValidator(_test_path)]
"""A test file, a folder of them, or ``file::test``."""


class PytestConfig(CheckerConfig):
    """Settings of ``pytest``."""

    test_paths: tuple[TestPath, ...] = Field(
        min_length=1,
        max_length=200,
        title='Test paths',
        description='Your test files, one a line: setup files, folders of them (tests/), or single tests '
        '(test_add.py::test_small).',
        json_schema_extra={'examples': [['tests/test_add.py']]},
    )


class Pytest(Document):
    """Reward: the share of the author's tests that pass."""

    type: Literal['pytest'] = 'pytest'
    config: PytestConfig

    def rests_on(self, author_files: Mapping[str, str]) -> frozenset[str]:
        """The tests, every conftest.py above them, and what else lies in their folders below the top."""
        tests = self.test_files(author_files)
        folders = {PurePosixPath(path).parent for path in tests} - {PurePosixPath('.')}
        folders |= {PurePosixPath(path) for path in self._folders() if path != EVERYTHING}
        beside = {path for path in author_files if folders & set(PurePosixPath(path).parents)}
        above = {folder for path in tests for folder in PurePosixPath(path).parents}
        return (
            frozenset(tests)
            | beside
            | {
                path
                for path in author_files
                if PurePosixPath(path).name == 'conftest.py' and PurePosixPath(path).parent in above
            }
        )

    def test_files(self, author_files: Mapping[str, str]) -> tuple[str, ...]:
        """The author's files that hold the tests. Raises ``CheckerError`` where a test path names none."""
        found: dict[str, None] = {}
        for path in self.config.test_paths:
            files = [name for name in sorted(author_files) if _covers(path, name)]
            if not files:
                raise CheckerError(
                    f'test path {path!r} is not among the setup files',
                    hint='Tests must be setup files of the task: a test the model wrote proves nothing.',
                )
            found.update(dict.fromkeys(files))
        return tuple(found)

    def check(self, context: CheckContext) -> Verdict:
        """Run the author's tests in a fresh sandbox and count those that pass."""
        tests = self.test_files(context.author_files)
        return check_tests(tests, self.config.test_paths, self.config.timeout_s, context)

    def reward_sentence(self) -> str:
        """Say in one sentence what the reward will be."""
        return f'The share of the tests in {", ".join(self.config.test_paths)} that pass.'

    def weakness(self) -> str:
        """Say what a model could exploit."""
        if self.config.protect is not None:
            return 'Files beside the tests are only put back where the protect list names them.'
        return ''

    def _folders(self) -> list[str]:
        return [path.rstrip('/') for path in self.config.test_paths if path.endswith('/') or '.' not in path]


def _covers(test_path: str, name: str) -> bool:
    """Whether a test path means this author's file: itself, or a test file below a folder."""
    path = test_path.partition('::')[0].rstrip('/')
    if name == path:
        return True
    if path != EVERYTHING and not name.startswith(f'{path}/'):
        return False
    file = PurePosixPath(name).name
    return file.endswith('.py') and (file.startswith('test_') or file.removesuffix('.py').endswith('_test'))
