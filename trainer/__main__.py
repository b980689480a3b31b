"""``python -m trainer RUN_DIR``: runs the stages of a run folder, writing down everything as it goes.

Exit codes: 0 finished, 1 failed, 143 stopped on request. What happened is in events.jsonl; exit.json says how it ended.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from trainer.errors import RlvrError
from trainer.runfolder import Claim, Exit, RunFolder

EXIT_FINISHED: Final = 0
EXIT_FAILED: Final = 1
EXIT_STOPPED: Final = 143


def main(arguments: list[str] | None = None) -> int:
    """Run a folder to its end; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1:
        print('usage: python -m trainer RUN_DIR', file=sys.stderr)  # noqa: T201
        return 2
    folder = RunFolder(Path(arguments[0]).resolve())
    folder.config()
    folder.write_claim(Claim.of(os.getpid(), os.environ.get('RLVR_RUN_TOKEN', '')))
    code = EXIT_FAILED
    try:
        code = _run(folder)
    finally:
        folder.write_exit(Exit(code=code))
    return code


def _run(folder: RunFolder) -> int:
    from trainer.journal import Journal

    with Journal(folder) as journal:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: journal.request_stop())
        try:
            journal.state('preparing')
            # The training stack takes seconds to import: by now a reader knows that the run is alive.
            from trainer.stages import run_stages

            ending = run_stages(folder, journal)
        except RlvrError as error:
            traceback.print_exc()
            if error.hint:
                journal.notice(error.hint, level='error')
            journal.state('failed', error.message)
            return EXIT_FAILED
        except Exception as error:
            # The boundary of the program: whatever it was, the run page must say so.
            traceback.print_exc()
            journal.state('failed', f'{type(error).__name__}: {error}'[:500])
            return EXIT_FAILED
        journal.state(ending.state, ending.reason)
    codes: dict[str, Any] = {'finished': EXIT_FINISHED, 'stopped': EXIT_STOPPED}
    return int(codes.get(ending.state, EXIT_FAILED))


if __name__ == '__main__':
    sys.exit(main())
