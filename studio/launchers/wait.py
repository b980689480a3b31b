"""A tiny parent that outlives the studio: starts the trainer, says who it is, waits, and says how it ended.

Run as a script by a bare interpreter (``python -I -S wait.py RUN_DIR COMMAND…``) so that it stays below 10 MB: it
imports neither this package nor anything else that is large. It adopts what the trainer leaves behind (Linux) and ends
it, so a trainer that is killed leaves no process even when no studio is there to see it.
"""

import os
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
ROOM = 256
SIGKILL = 9  # the signal module would double what this process weighs


def main(folder: str, command: list[str]) -> None:
    """Detach, run the command to its end; write claim.json, then exit.json."""
    claimed = detach()
    become_subreaper()
    # Before there is anybody who could take it.
    for name in ('claim.json', 'exit.json'):
        reserve(folder, name)
    pid = os.fork()
    if pid == 0:
        execute(folder, command)
    token = os.environ.get('RLVR_RUN_TOKEN', '')
    write(folder, 'claim.json', f'{{"pid": {pid}, "started": {start_time(pid)!r}, "token": "{token}"}}')
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # until now the launcher read what went wrong
    os.close(claimed)
    status = wait_for(pid)
    code = os.waitstatus_to_exitcode(status)
    how = f'"signal": {-code}' if code < 0 else f'"code": {code}'
    end_what_is_left()
    write(folder, 'exit.json', f'{{{how}, "time": {time.time()!r}}}')


def detach() -> int:
    """Go on in a process that belongs to nobody, in its own session; the first one ends when the claim is written.

    Returns the descriptor to close then.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    os.setsid()
    return writer


def execute(folder: str, command: list[str]) -> None:
    """Become the trainer: own session, no input, output to trainer.log."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(os.path.join(folder, 'trainer.log'), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 1024)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f'{command[0]} cannot be started: {error}\n'.encode())
        os._exit(127)


def become_subreaper() -> None:
    """Let orphans of the trainer become children of this process, where the system can."""
    if not sys.platform.startswith('linux'):
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start_time(pid: int) -> float:
    """Seconds since the epoch at which a process started, as psutil counts them."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
            ticks = float(file.read().rpartition(')')[2].split()[19])
        with open('/proc/stat', encoding='utf-8') as file:
            boot = next(float(line.split()[1]) for line in file if line.startswith('btime'))
    except OSError:
        return time.time()
    return boot + ticks / os.sysconf('SC_CLK_TCK')


def wait_for(pid: int) -> int:
    """Reap children until that one has ended; return its status."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def end_what_is_left() -> None:
    """Kill and reap adopted processes, and those they leave in turn."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for child in children():
            try:
                os.kill(child, SIGKILL)
            except ProcessLookupError:
                continue
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.02)


def children() -> list[int]:
    """Process numbers of this process's children; none where /proc does not tell."""
    me = str(os.getpid())
    found = []
    for name in os.listdir('/proc') if os.path.isdir('/proc') else []:
        if name.isdigit():
            try:
                with open(f'/proc/{name}/stat', encoding='utf-8', errors='replace') as file:
                    parent = file.read().rpartition(')')[2].split()[1]
            except OSError:
                continue
            if parent == me:
                found.append(int(name))
    return found


def reserve(folder: str, name: str) -> None:
    """Take the room for a small file now: how a run ended must be told even when that run has filled the disk."""
    with open(os.path.join(folder, name + '.tmp'), 'w', encoding='utf-8') as file:
        file.write(' ' * ROOM)
        file.flush()
        os.fsync(file.fileno())


def write(folder: str, name: str, text: str) -> None:
    """Write a small file whole or not at all, in the room that was reserved for it."""
    path = os.path.join(folder, name)
    with open(path + '.tmp', 'r+', encoding='utf-8') as file:
        file.write(text.ljust(ROOM - 1) + '\n')
    os.replace(path + '.tmp', path)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2:])
