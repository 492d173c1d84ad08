"""An AWS emulator (ministack), on a free loopback port. The first argument is a folder of its own, the last what it removes at its end.

Prints "port NUMBER" once connections are taken. Stops when standard input ends, so that it never outlives the test process, and takes
the functions that it runs with it.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import threading
import time

# What a function process must not learn from whoever started this: it sees what its stack says, as on AWS.
OTHERS = ("REVSYNC_", "AWS_", "CARGO", "RUST", "OPENSEARCH_URL")


def main() -> None:
    home = sys.argv[1]
    # A group of its own, so that the functions can be ended with it: they are native processes, and children of this one.
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = listener.getsockname()[1]
    for name in [name for name in os.environ if name.startswith(OTHERS)]:
        del os.environ[name]
    # Read when ministack is imported, so set before. Everything that it writes goes into the folder, and functions come back to it.
    os.environ.update(
        GATEWAY_PORT=str(port),
        MINISTACK_HOST="127.0.0.1",
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        LOG_LEVEL="WARNING",
        TMPDIR=home,
        S3_DATA_DIR=os.path.join(home, "s3"),
    )

    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    config.keep_alive_timeout = 75
    threading.Thread(target=end_with_input, args=(sys.argv[-1],), daemon=True).start()
    print(f"port {port}", flush=True)
    asyncio.run(serve(app, config))


def end_with_input(folder: str) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    # Others that end now may still write into it.
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
        time.sleep(0.1)
    # The server may wait for clients that wait for it, and functions for a sink: all of it ends here.
    os.killpg(0, signal.SIGKILL)


main()
