"""``python -m trainer RUN_DIR``: runs the stages of a run folder, writing down everything as it goes.

On a folder that was trained before it goes on from the last checkpoint. Exit codes: 0 finished, 1 failed, 2 nothing to
do here, 143 stopped on request. What happened is in events.jsonl; exit.json says how it ended.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainer import processes
from trainer.errors import RlvrError
from trainer.events import FINAL_STATES, RunState, last_state
from trainer.journal import Journal, SilentJournal, print_exception
from trainer.runfolder import Claim, Exit, RunFolder

EXIT_FINISHED: Final = 0
EXIT_FAILED: Final = 1
EXIT_STOPPED: Final = 143
CODES: Final[Mapping[RunState, int]] = {'finished': EXIT_FINISHED, 'stopped': EXIT_STOPPED}


def main(arguments: list[str] | None = None) -> int:
    """Run a folder to its end; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1:
        print('usage: python -m trainer RUN_DIR', file=sys.stderr)  # noqa: T201
        return 2
    folder = RunFolder(Path(arguments[0]).resolve())
    number = processes.rank()
    if number is not None:
        return EXIT_FAILED if _run(folder, number) == EXIT_FAILED else 0
    try:
        count = processes.wanted(folder.config())
        folder.check_unfinished(folder.config())
        folder.begin(Claim.of(os.getpid(), os.environ.get('RLVR_RUN_TOKEN', '')))
    except RlvrError as error:
        print(f'{error.message}. {error.hint}'.strip(), file=sys.stderr)  # noqa: T201
        return 2
    code = EXIT_FAILED
    try:
        code = _run(folder) if count == 1 else _run_several(folder, count)
    finally:
        folder.write_exit(Exit(code=code))
    return code


def _run_several(folder: RunFolder, count: int) -> int:
    """Run the folder with several processes; see that it ends in a state, whatever became of them."""
    before = folder.events.stat().st_size if folder.events.exists() else 0
    reason = processes.launch(folder, count)
    state = last_state(folder.events, before)
    if state not in FINAL_STATES:
        state = 'failed'
        with Journal(folder) as journal:
            journal.state(state, reason or 'the processes ended before their work was done')
    return CODES.get(state, EXIT_FAILED)


def _run(folder: RunFolder, number: int = 0) -> int:
    """Run the stages as the process of this number, of which the first one writes."""
    with SilentJournal(folder) if number else Journal(folder) as journal:
        for asked in (signal.SIGTERM, signal.SIGINT):
            signal.signal(asked, lambda *_: journal.request_stop())
        try:
            journal.state('preparing')
            # The training stack takes seconds to import: by now a reader knows that the run is alive.
            from trainer.stages import run_stages

            ending = run_stages(folder, journal)
        except RlvrError as error:
            print_exception()
            if error.hint:
                journal.notice(error.hint, level='error')
            journal.state('failed', error.message)
            processes.write_failure(folder, number, error.message)
            return EXIT_FAILED
        except Exception as error:
            # The boundary of the program: whatever it was, the run page must say so.
            print_exception()
            reason = f'{type(error).__name__}: {error}'[:500]
            journal.state('failed', processes.cause(folder, reason))
            processes.write_failure(folder, number, reason)
            return EXIT_FAILED
        journal.state(ending.state, ending.reason)
    return CODES.get(ending.state, EXIT_FAILED)


if __name__ == '__main__':
    sys.exit(main())
