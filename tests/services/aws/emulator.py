"""An AWS emulator for tests (ministack), on a free loopback port. The argument is a folder of its own, which it removes at its end.

Prints "port NUMBER" once connections are taken. Stops when standard input ends, so that it never outlives the test process.
"""

import asyncio
import os
import shutil
import socket
import sys
import threading


def main() -> None:
    home = sys.argv[1]
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = listener.getsockname()[1]
    # Read when ministack is imported, so set before. Everything that it writes goes into the folder.
    os.environ.update(
        GATEWAY_PORT=str(port), MINISTACK_HOST="127.0.0.1", LOG_LEVEL="WARNING", TMPDIR=home, S3_DATA_DIR=os.path.join(home, "s3")
    )

    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    config.keep_alive_timeout = 75
    threading.Thread(target=end_with_input, args=(home,), daemon=True).start()
    print(f"port {port}", flush=True)
    asyncio.run(serve(app, config))


def end_with_input(home: str) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    shutil.rmtree(home, ignore_errors=True)
    # The server may wait for clients that wait for it.
    os._exit(0)


main()
